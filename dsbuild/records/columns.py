"""Column and Records: the in-memory batches of rows that readers make and handlers change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from dsbuild.schema import KEY, OBJECTS, RECORD, Field, Schema


@final
class Missing:
    """The type of ``MISSING``, a field that a record does not have. Survives pickling as the same object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Values of one field: an array (``offsets`` = int64[n+1] if ragged), or a list of Python values."""

    values: np.ndarray | list[Any]
    offsets: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        """Value ``i``: a Python value, or an array view."""
        if self.offsets is None:
            return self.values[i]
        return self.values[int(self.offsets[i]) : int(self.offsets[i + 1])]

    def take(self, rows: np.ndarray) -> Column:
        """The values at ``rows`` (int64 indices), in that order."""
        if isinstance(self.values, list):
            return Column(values=[self.values[i] for i in rows.tolist()])
        if self.offsets is None:
            return Column(values=self.values[rows])
        lengths = np.diff(self.offsets)[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        starts = self.offsets[rows] - offsets[:-1]
        index = np.repeat(starts, lengths) + np.arange(int(offsets[-1]))
        return Column(values=self.values[index], offsets=offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """``schema`` and, per field, a column; all columns have the same length.

    ``@key`` and ``@record`` (see ``dsbuild.schema``) go along with every record.
    """

    schema: Schema
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        if set(self.columns) != set(self.schema.names):
            raise ValueError(f"columns {sorted(self.columns)} are not those of the schema {list(self.schema.names)}")
        if len({len(c) for c in self.columns.values()}) > 1:
            raise ValueError(f"columns differ in length: { {n: len(c) for n, c in self.columns.items()} }")

    def __len__(self) -> int:
        return next((len(c) for c in self.columns.values()), 0)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def select(self, names: Iterable[str]) -> Records:
        """Only the columns ``names`` (those that exist)."""
        wanted = set(names)
        fields = tuple(f for f in self.schema.fields if f.name in wanted)
        return Records(schema=Schema(fields=fields), columns={f.name: self.columns[f.name] for f in fields})

    def take(self, rows: np.ndarray) -> Records:
        """The rows at ``rows`` (int64 indices), in that order, repeats allowed."""
        return Records(schema=self.schema, columns={n: c.take(rows) for n, c in self.columns.items()})

    def replace(self, changes: Mapping[str, tuple[Field, Column]]) -> Records:
        """With the columns of ``changes`` added or replaced."""
        fields = [f for f in self.schema.fields if f.name not in changes] + [f for f, _ in changes.values()]
        columns = dict(self.columns) | {n: c for n, (_, c) in changes.items()}
        return Records(schema=Schema.of(*fields), columns=columns)

    def drop(self, names: Iterable[str]) -> Records:
        """Without the columns ``names``."""
        gone = set(names)
        return self.select(n for n in self.schema.names if n not in gone)

    def row(self, i: int) -> dict[str, Any]:
        """Row ``i`` as a dict of the user's columns, without missing fields."""
        found = {}
        for name, column in self.columns.items():
            if not name.startswith("@"):
                value = column[i]
                if value is not MISSING:
                    found[name] = value
        return found


def from_rows(rows: Sequence[Mapping[str, Any]], keys: np.ndarray, origins: np.ndarray) -> Records:
    """Records of JSON-like ``rows``: every field a ``json`` column, ``MISSING`` where a row lacks it.

    ``keys``: uint64[n] split keys; ``origins``: int64[n] as in ``schema.RECORD``.
    """
    names = sorted({name for row in rows for name in row})
    fields = [Field(name=KEY, dtype="uint64"), Field(name=RECORD, dtype="int64")]
    columns = {KEY: Column(values=keys), RECORD: Column(values=origins)}
    for name in names:
        fields.append(Field(name=name, dtype="json"))
        columns[name] = Column(values=[row.get(name, MISSING) for row in rows])
    return Records(schema=Schema.of(*fields), columns=columns)


def concatenate(blocks: Sequence[Records]) -> Records:
    """One Records of ``blocks`` (at least one). A ``json`` column absent from a block is ``MISSING`` there.

    Raises ``ValueError`` where two blocks have a column with different dtypes or shapes, or lack a typed column.
    """
    if len(blocks) == 1:
        return blocks[0]
    fields: dict[str, Field] = {}
    for block in blocks:
        for field in block.schema.fields:
            if fields.setdefault(field.name, field) != field:
                raise ValueError(f"column {field.name!r} is {fields[field.name]} in one block and {field} in another")
    columns = {}
    for name, field in fields.items():
        if field.dtype in OBJECTS:
            values: list[Any] = []
            for block in blocks:
                values.extend(block[name].values if name in block.columns else [MISSING] * len(block))
            columns[name] = Column(values=values)
            continue
        columns[name] = _joined(field, [block[name] for block in blocks])
    return Records(schema=Schema.of(*fields.values()), columns=columns)


def _joined(field: Field, parts: Sequence[Column]) -> Column:
    """One number column of several."""
    if not field.ragged:
        return Column(values=np.concatenate([p.values for p in parts]))
    values, offsets, total = [], [np.zeros(1, np.int64)], 0
    for p in parts:
        if p.offsets is None:
            raise ValueError(f"column {field.name!r} is ragged but has no offsets")
        first, last = int(p.offsets[0]), int(p.offsets[-1])
        values.append(p.values[first:last])
        offsets.append(p.offsets[1:] - first + total)
        total += last - first
    return Column(values=np.concatenate(values), offsets=np.concatenate(offsets))
