"""Python: the handler that calls a user's function on each record.

The function gets a fresh ``dict`` and the arguments by name. It returns a dict (the record now), None or False (left
out), True (kept as it came), or a list, tuple or generator of dicts (many records).
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dsbuild.canon import Value
from dsbuild.errors import BuildError, DsbuildError
from dsbuild.handlers.namespace import Namespace, file_of
from dsbuild.handlers.values import ValueProblem, argument, copy_in, json_out, typed_out
from dsbuild.interfaces import Argument, Effect, Facts, RecordError, Resources
from dsbuild.records import MISSING, Column, Records
from dsbuild.schema import Field, Schema


class Python:
    """Runs user Python. ``resolve`` is given what the graph knows of the code; users write ``arguments`` freely.

    Hashed: ``code`` (the closure's digest), ``entry``, ``arguments``, ``requires`` (locked versions), ``reads`` (data
    files by id), ``unicode`` (class of the Unicode database, where the code depends on it).
    """

    name = "python"
    version = 1
    arguments = (
        Argument(name="code", type="text", doc="digest of the closure of modules", required=True),
        Argument(name="entry", type="text", doc="module:function", required=True),
        Argument(name="arguments", type="value", doc="what the function is called with"),
        Argument(name="requires", type="mapping", doc="locked version of each package it may import"),
        Argument(name="reads", type="mapping", doc="id of each data file it may read"),
        Argument(name="unicode", type="text", doc="version of the Unicode database, where it matters"),
    )

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        self._module, _, self._function = arguments["entry"].partition(":")
        self._keywords = {name: argument(value) for name, value in arguments.get("arguments", {}).items()}
        if "reads" in arguments:
            self._keywords["reads"] = dict(resources.data)
        self._resources = resources
        self._call: Any = None

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """``arguments`` without those that are empty. Raises ``ValueError`` for an argument that Python can't name."""
        for name in arguments.get("arguments", {}):
            if not name.isidentifier():
                raise ValueError(f"argument {name!r} is no name of Python")
        return {name: value for name, value in arguments.items() if value not in (None, "", {})}

    def effect(self) -> Effect:
        """Any column may be read, any may be made."""
        return Effect(needs=None, opens=True)

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``. Raises ``RecordError`` with the user's file and line."""
        call = self._loaded()
        fields = records.schema.fields
        typed = {f.name: f for f in fields if f.dtype not in ("json", "text") and not f.name.startswith("@")}
        rows: list[dict[str, Any]] = []
        origins: list[int] = []
        for i in range(len(records)):
            before = records.row(i)
            for made in self._one(call, before, i):
                rows.append(_checked(made, typed, i))
                origins.append(i)
        return _assembled(records, rows, np.array(origins, np.int64), typed)

    def _loaded(self) -> Any:
        if self._call is None:
            try:
                namespace = Namespace(self._resources.modules, self._module.rpartition(".")[0])
                found = getattr(namespace.load(self._module), self._function, None)
            except DsbuildError:
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - user code raises what it likes
                # No RecordError: on_error = "skip" must not skip every record because a module is broken.
                raise BuildError(f"{self._told(error)}, while it was imported", kind="bad-python") from None
            if not callable(found):
                raise BuildError(f"{file_of(self._module)}: '{self._function}' is no function", kind="bad-python")
            self._call = found
        return self._call

    def _one(self, call: Any, record: dict[str, Any], row: int) -> Iterator[dict[str, Any]]:
        """What the function makes of one record. User code's errors of any type end in a ``RecordError``."""
        try:
            made = call(copy_in(record), **self._keywords)
            if isinstance(made, list | tuple | types.GeneratorType):
                made = list(made)
        except DsbuildError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user code raises what it likes
            raise RecordError(row, self._told(error)) from None
        if made is None or made is False:
            return
        many: Iterable[Any] = made if isinstance(made, list) else [record if made is True else made]
        for one in many:
            if not isinstance(one, dict):
                hint = "return a dict, None or False (leave out), True (keep), or a list of dicts"
                shown = f"{self._place()}: returned {type(one).__name__}"
                raise RecordError(row, shown + (" in a list" if isinstance(made, list) else ""), hint=hint)
            yield one

    def _place(self) -> str:
        return f"{file_of(self._module)}: {self._function}"

    def _told(self, error: BaseException) -> str:
        """The error with the user's file and line: the last first-party frame."""
        files = {file_of(name): name for name in self._resources.modules}
        place = self._place()
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename in files:
                file = frame.f_code.co_filename
                lines = self._resources.lines.get(files[file], ())
                place = f"{file}:{lines[line - 1] if 0 < line <= len(lines) else line}"
        try:
            said = str(error)
        except Exception:  # noqa: BLE001 - a user's exception may have a broken __str__
            said = ""
        return f"{place}: {type(error).__name__}" + (f": {said}" if said else "")


def _checked(made: dict[str, Any], typed: Mapping[str, Field], row: int) -> dict[str, Any]:
    found = {}
    for name, value in made.items():
        if not isinstance(name, str) or name.startswith("@"):
            raise RecordError(row, f"returned the column {name!r}", hint="names are text and don't start with '@'")
        try:
            found[name] = typed_out(typed[name], value) if name in typed else json_out(value)
            name.encode("utf-8")
        except ValueProblem as problem:
            raise RecordError(row, f"returned column '{name}', which {problem.message}", hint=problem.hint) from None
        except UnicodeEncodeError:
            raise RecordError(row, f"returned the column {name!r}, which has a lone surrogate") from None
    for name, field in typed.items():
        if name not in found:
            hint = "keep it in the record; { use = 'drop' } takes a column away from all records"
            raise RecordError(row, f"returned no column '{name}', which came in as {field.dtype}", hint=hint)
    return found


def _assembled(
    records: Records, rows: list[dict[str, Any]], origins: np.ndarray, typed: Mapping[str, Field]
) -> Records:
    """Records of ``rows``; reserved columns are inherited from the rows ``origins`` of ``records``."""
    reserved = [n for n in records.schema.names if n.startswith("@")]
    columns = dict(records.select(reserved).take(origins).columns)
    fields = [records.schema[n] for n in reserved]
    for name in sorted({n for row in rows for n in row} | set(typed)):
        field = typed.get(name) or Field(name=name, dtype="json")
        values = [row.get(name, MISSING) for row in rows]
        fields.append(field)
        columns[name] = _column(field, values)
    return Records(schema=Schema.of(*fields), columns=columns)


def _column(field: Field, values: list[Any]) -> Column:
    if field.dtype in ("json", "text", "bytes"):
        return Column(values=values)
    dtype = np.dtype(field.dtype)
    if not field.ragged:
        shape = tuple(n or 0 for n in field.shape)
        return Column(values=np.array(values, dtype).reshape(len(values), *shape))
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(v) for v in values], out=offsets[1:])
    empty = np.zeros((0, *(n or 0 for n in field.shape[1:])), dtype)
    return Column(values=np.concatenate([empty, *values]), offsets=offsets)
