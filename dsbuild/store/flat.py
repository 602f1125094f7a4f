"""Flat: the columns of a part on their way to the disk, so that Python values live for one block only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dsbuild.digest import Digest
from dsbuild.records import Records, column_digest, flatten, part_digest
from dsbuild.schema import OBJECTS, Field, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatColumn:
    """``values`` (little-endian, first axis as counted by ``offsets``) and int64 ``offsets`` or None."""

    values: np.ndarray
    offsets: np.ndarray | None

    @property
    def longest(self) -> int:
        """Most values of one record; 0 without records."""
        if self.offsets is None or len(self.offsets) == 1:
            return 0
        return int(np.diff(self.offsets).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPart:
    """The flat columns of ``records`` records, by name."""

    schema: Schema
    records: int
    columns: dict[str, FlatColumn]

    def content(self) -> Digest:
        """The content digest."""
        found = {}
        for field in self.schema.fields:
            column = self.columns[field.name]
            found[field.name] = column_digest(field, column.values, column.offsets)
        return part_digest(self.records, found)


class _Growing:
    """One column while it grows."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.inner = tuple(n for n in field.shape if n is not None)
        self.dtype = np.dtype("uint8" if field.dtype in OBJECTS else field.dtype).newbyteorder("<")
        self.values, self.offsets, self.end = bytearray(), bytearray(np.zeros(1, "<i8").tobytes()), 0

    def add(self, block: Records) -> None:
        """Append a block's rows. Raises ``ValueError`` where they don't fit the field."""
        name = self.field.name
        if name not in block.columns or block.schema[name] != self.field:
            there = next((f for f in block.schema.fields if f.name == name), "absent")
            raise ValueError(f"column {name!r} should be {self.field}, but is {there}")
        column = block[name]
        if not isinstance(column.values, list) and column.values.dtype != self.dtype:
            raise ValueError(f"column {name!r} holds {column.values.dtype}, not {self.dtype}")
        values, offsets = flatten(self.field, column)
        if values.shape[1:] != self.inner or (offsets is None) == self.field.ragged:
            raise ValueError(f"column {name!r} has values of shape {values.shape[1:]}, not {self.inner}")
        if values.size:
            self.values += values.reshape(-1).view(np.uint8).data
        if offsets is not None:
            if len(values) != int(offsets[-1]) or bool((np.diff(offsets) < 0).any()):
                raise ValueError(f"column {name!r} has offsets that don't fit its {len(values)} values")
            self.offsets += (offsets[1:] + self.end).astype("<i8", copy=False).tobytes()
            self.end += len(values)

    def finish(self) -> FlatColumn:
        """The whole column."""
        values = np.frombuffer(self.values, self.dtype).reshape(-1, *self.inner)
        return FlatColumn(values=values, offsets=np.frombuffer(self.offsets, "<i8") if self.field.ragged else None)


def gather(schema: Schema, blocks: Iterable[Records]) -> FlatPart:
    """All records of ``blocks`` in flat form; columns outside ``schema`` are left out.

    Raises ``ValueError`` where a block's columns are not those of ``schema``.
    """
    growing = [_Growing(field) for field in schema.fields]
    records = 0
    for block in blocks:
        for column in growing:
            column.add(block)
        records += len(block)
    return FlatPart(schema=schema, records=records, columns={g.field.name: g.finish() for g in growing})
