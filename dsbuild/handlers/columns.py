"""Columns: the handlers that move whole columns and look at no value: rename, select, drop, copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dsbuild.canon import Value
from dsbuild.interfaces import Argument, Effect, Facts, RecordError, Resources
from dsbuild.records import MISSING, Records


class Rename:
    """``columns = { content = "text" }``: what was ``content`` is ``text``, in place of a ``text`` that was there."""

    name = "rename"
    version = 1
    arguments = (Argument(name="columns", type="mapping", doc='old = "new"', required=True),)

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        self._columns: dict[str, str] = dict(arguments["columns"])

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The mapping. Raises ``ValueError`` where two columns would get one name, or a name is old and new."""
        columns = _check_moves(arguments["columns"])
        for name in sorted(set(columns) & set(columns.values())):
            raise ValueError(f"'{name}' is an old and a new name; use two rename handlers")
        return {"columns": columns}

    def effect(self) -> Effect:
        """Needs the old names, so that a misspelt one is found."""
        return Effect(needs=frozenset(self._columns), renames=self._columns)

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``. Raises ``RecordError`` for a record without the old field."""
        return _moved(records, self._columns, self.name).drop(self._columns)


class Copy:
    """``columns = { text = "original" }``: ``original`` is what ``text`` is now."""

    name = "copy"
    version = 1
    arguments = (Argument(name="columns", type="mapping", doc='old = "new"', required=True),)

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        self._columns: dict[str, str] = dict(arguments["columns"])

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The mapping. Raises ``ValueError`` where two columns would get one name."""
        return {"columns": _check_moves(arguments["columns"])}

    def effect(self) -> Effect:
        """Needs the old names, and makes the new ones, of the same dtypes."""
        return Effect(needs=frozenset(self._columns), copies=self._columns)

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``. Raises ``RecordError`` for a record without the old field."""
        return _moved(records, self._columns, self.name)


class Select:
    """``columns = ["text", "lang"]``: all others are taken away."""

    name = "select"
    version = 1
    arguments = (Argument(name="columns", type="names", doc="the columns that stay", required=True),)

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        self._columns = frozenset(arguments["columns"])

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The names, sorted: their order says nothing. Raises ``ValueError`` for none, or for a reserved one."""
        return {"columns": _check_names(arguments["columns"])}

    def effect(self) -> Effect:
        """Reads the columns that stay."""
        return Effect(needs=self._columns, keeps_only=self._columns)

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``. A field that a record lacks stays missing."""
        return records.select(n for n in records.schema.names if n in self._columns or n.startswith("@"))


class Drop:
    """``columns = ["meta"]``: taken away; a record without them is fine."""

    name = "drop"
    version = 1
    arguments = (Argument(name="columns", type="names", doc="the columns to take away", required=True),)

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        self._columns = frozenset(arguments["columns"])

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The names, sorted: their order says nothing. Raises ``ValueError`` for none, or for a reserved one."""
        return {"columns": _check_names(arguments["columns"])}

    def effect(self) -> Effect:
        """Removes the columns."""
        return Effect(removes=self._columns)

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``."""
        return records.drop(self._columns)


def _check_names(names: Value) -> list[str]:
    if not names:
        raise ValueError("columns names none")
    for name in names:
        if not name or name.startswith("@"):
            raise ValueError(f"columns: {name!r} can't name a column of yours")
    return sorted(set(names))


def _check_moves(columns: Value) -> dict[str, str]:
    _check_names([*columns, *columns.values()])
    seen: dict[str, str] = {}
    for old, new in columns.items():
        if old == new:
            raise ValueError(f"columns: '{old}' to itself")
        if new in seen:
            raise ValueError(f"columns: '{seen[new]}' and '{old}' would both be '{new}'")
        seen[new] = old
    return dict(columns)


def _moved(records: Records, columns: Mapping[str, str], name: str) -> Records:
    """``records`` with the columns also under their new names."""
    changes = {}
    for old, new in columns.items():
        if old not in records.schema:
            if len(records):
                raise _missing(0, old, name)
            continue
        column = records[old]
        if isinstance(column.values, list):
            for row, value in enumerate(column.values):
                if value is MISSING:
                    raise _missing(row, old, name)
        changes[new] = (replace(records.schema[old], name=new), column)
    return records.replace(changes)


def _missing(row: int, column: str, name: str) -> RecordError:
    hint = f"{{ use = 'keep', where = 'has({column})' }} before it leaves such records out"
    return RecordError(row, f"{name}: the record has no field '{column}'", hint=hint)
