"""What Parquet and Arrow have in common: pyarrow on call, its errors for people, batches of rows as Records.

``@key`` of a row: of its JSON text in UTF-8, fields in the order of the schema, null fields and null members of
structs left out, no blanks, nothing escaped that need not be, bytes as hexadecimal text. So it equals the key of the
same record in a JSON Lines file that is written that way, and it does not depend on which columns are wanted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dsbuild.canon import Value
from dsbuild.errors import BuildError, MachineError, StorageError
from dsbuild.interfaces import Skip
from dsbuild.readers.faults import Fault, Place, settle
from dsbuild.readers.keys import split_keys
from dsbuild.readers.names import column_name
from dsbuild.readers.plain import Mend, bare_type, is_binary, mend
from dsbuild.records import MISSING, Column, Records
from dsbuild.schema import KEY, RECORD, Field, Schema

ROWS = 4096
"""Rows in a block, at most."""

BLOCK_BYTES = 4 << 20
"""Bytes in a block, about."""


def need_pyarrow() -> None:
    """Raise ``MachineError`` (``missing-library``) where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MachineError(
            "pyarrow: not installed, and Parquet and Arrow files need it",
            kind="missing-library",
            hint="pip install 'dsbuild[parquet]'",
        ) from None


@contextmanager
def arrow_errors(path: Path, form: str) -> Iterator[None]:
    """Errors that pyarrow raises on damaged files become ``BuildError`` (``bad-record``) that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise StorageError(f"{path}: can't be read: {error.strerror or error}", kind="io-error") from None
        raise _damaged(path, form, error) from None
    except Fault as fault:
        detail = f": {fault.detail}" if fault.detail else ""
        raise BuildError(f"{path}: {fault.reason}{detail}", kind=fault.kind, hint=fault.hint) from None
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise _damaged(path, form, error) from None
    except NotImplementedError as error:
        raise BuildError(f"{path}: {_first_line(error)}: not served by pyarrow", kind="bad-record") from None


def _damaged(path: Path, form: str, error: BaseException) -> BuildError:
    hint = "the file is damaged or of another format; fetch or write it again"
    return BuildError(f"{path}: not a whole {form} file: {_first_line(error)}", kind="bad-record", hint=hint)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    line = text.splitlines()[0] if text else type(error).__name__
    return f"{line[:1].lower()}{line[1:200]}"


def schema_text(schema: Any) -> list[Value]:
    """[name, type] of each column, for contexts. Raises ``ValueError`` where two columns have one name."""
    names = list(schema.names)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"two columns are named '{name}'")
    return [[field.name, str(field.type)] for field in schema]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the batches of one schema become Records: per column its ``mends`` and what it is ``cast`` to before.

    ``wanted``: the columns to make, with their dtypes.
    """

    names: tuple[str, ...]
    mends: tuple[Mend | None, ...]
    casts: tuple[Any, ...]
    wanted: tuple[Field, ...]


def shape(schema: Any, columns: frozenset[str] | None) -> Shape:
    """The shape of ``schema``. Raises ``Fault`` for a wanted column without a form or with a name that can't be one.

    Raises ``ValueError`` as ``schema_text``.
    """
    schema_text(schema)
    wanted = []
    mends: list[Mend | None] = []
    names = tuple(schema.names)
    for field in schema:
        use = columns is None or (field.name in columns and not field.name.startswith("@"))
        if use:
            wanted.append(Field(name=column_name(field.name), dtype="bytes" if is_binary(field.type) else "json"))
        try:
            mends.append(mend(field.type, shown=use))
        except Fault as fault:
            raise Fault(f"column '{field.name}': {fault.reason}", hint="name the columns with `select`") from None
    absent = sorted(c for c in columns or () if c not in names and not c.startswith("@"))
    wanted += [Field(name=name, dtype="json") for name in absent]
    bare = [bare_type(field.type) for field in schema]
    casts = tuple(None if b == field.type else b for b, field in zip(bare, schema, strict=True))
    return Shape(names=names, mends=tuple(mends), casts=casts, wanted=tuple(wanted))


def blocks(
    path: Path, batches: Iterable[Any], made: Shape, first: int, skipped: list[Skip] | None
) -> Iterator[Records]:
    """The rows of ``batches`` as Records of at most 4,096 rows and about 4 MiB; ``first``: number of the first row."""
    number = 0
    for batch in batches:
        _check(batch)
        size = max(min(ROWS, BLOCK_BYTES * batch.num_rows // max(batch.nbytes, 1)), 1)
        for begin in range(0, batch.num_rows, size):
            part = batch.slice(begin, size)
            rows, numbers = _rows(path, part, made, first, number, skipped)
            if rows:
                yield _records(rows, numbers, made)
            number += part.num_rows


def _check(batch: Any) -> None:
    """Offsets, lengths and dictionary indices lie in their buffers; else reading them could end the process.

    Text that is not UTF-8 is left for ``_values``, which knows the row; inside lists it is an error here.
    """
    import pyarrow as pa

    plain = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    for array in batch.columns:
        kind = plain.get(array.type)
        (array if kind is None else array.view(kind)).validate(full=True)


def _rows(
    path: Path, batch: Any, made: Shape, first: int, number: int, skipped: list[Skip] | None
) -> tuple[list[tuple[Any, ...]], np.ndarray]:
    """The good rows of a batch and their numbers. Row by row only where one of them is bad."""
    try:
        return _values(batch, made), np.arange(number, number + batch.num_rows, dtype=np.int64)
    except Fault:
        rows: list[tuple[Any, ...]] = []
        numbers = []
        for i in range(batch.num_rows):
            try:
                rows += _values(batch.slice(i, 1), made)
                numbers.append(number + i)
            except Fault as fault:
                record = first + number + i
                settle(path, Place(name="row", number=record + 1), record, fault, skipped)
        return rows, np.array(numbers, np.int64)


def _values(batch: Any, made: Shape) -> list[tuple[Any, ...]]:
    columns = []
    for array, name, change, cast in zip(batch.columns, made.names, made.mends, made.casts, strict=True):
        try:
            items = (array if cast is None else array.cast(cast)).to_pylist()
            if change is not None:
                items = [None if item is None else change(item) for item in items]
        except UnicodeDecodeError as error:
            detail = f"byte 0x{error.object[error.start]:02x}"
            raise Fault(f"column '{name}': text that is not UTF-8", detail=detail, kind="bad-encoding") from None
        except Fault as fault:
            raise Fault(f"column '{name}': {fault.reason}", detail=fault.detail, hint=fault.hint) from None
        columns.append(items)
    return list(zip(*columns, strict=True)) if columns else [()] * int(batch.num_rows)


def _records(rows: list[tuple[Any, ...]], numbers: np.ndarray, made: Shape) -> Records:
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=bytes.hex).encode
    texts = (encode({n: v for n, v in zip(made.names, row, strict=True) if v is not None}) for row in rows)
    own = (Field(name=KEY, dtype="uint64"), Field(name=RECORD, dtype="int64"))
    columns = {KEY: Column(values=split_keys(t.encode("utf-8") for t in texts)), RECORD: Column(values=numbers)}
    at = {name: i for i, name in enumerate(made.names)}
    for field in made.wanted:
        place = at.get(field.name)
        values = [None] * len(rows) if place is None else [row[place] for row in rows]
        columns[field.name] = Column(values=[MISSING if v is None else v for v in values])
    return Records(schema=Schema.of(*own, *made.wanted), columns=columns)
