"""Schemas: the columns of records, with their dtypes and shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

OBJECTS = ("text", "json", "bytes")
"""Dtypes held in memory as lists of Python values and stored as flat uint8 values with offsets."""

NUMBERS = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")

KEY = "@key"
"""uint64 split key of a record: BLAKE3 of its source bytes, inherited by every record made of it."""

RECORD = "@record"
"""int64 origin of a record inside its part: segment << 40 | number of the source record inside the segment."""

FIELDS = "@fields"
"""json: whole records, kept where a later handler may use any field (see ``graph``)."""

SEGMENT_BITS = 40

_NAME = re.compile(r"@?[A-Za-z_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column: ``name``, ``dtype``, ``shape`` of one value (``None`` first = ragged; ``()`` = a scalar)."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in OBJECTS and self.dtype not in NUMBERS:
            raise ValueError(f"{self.dtype!r} is no dtype of dsbuild")
        if None in self.shape[1:]:
            raise ValueError(f"column {self.name!r}: only the first axis can be ragged, not shape {self.shape}")

    @property
    def ragged(self) -> bool:
        """Whether values differ in length, so that the column has offsets when stored."""
        return self.dtype in OBJECTS or (bool(self.shape) and self.shape[0] is None)

    def as_json(self) -> dict[str, object]:
        """Plain values, stable: part of stored schemas. Ragged axes are -1."""
        return {"dtype": self.dtype, "shape": [-1 if n is None else n for n in self.shape]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Fields sorted by name."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [f.name for f in self.fields]
        if names != sorted(set(names)):
            raise ValueError(f"fields must be sorted and different, not {names}")

    @classmethod
    def of(cls, *fields: Field) -> Schema:
        """A schema of ``fields`` in any order."""
        return cls(fields=tuple(sorted(fields, key=lambda f: f.name)))

    def __contains__(self, name: str) -> bool:
        return any(f.name == name for f in self.fields)

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The sorted names."""
        return tuple(f.name for f in self.fields)

    def as_json(self) -> dict[str, object]:
        """Plain values, stable: stored in manifests and objects."""
        return {f.name: f.as_json() for f in self.fields}

    @classmethod
    def from_json(cls, value: dict[str, dict[str, object]]) -> Schema:
        """The schema of ``as_json``'s values. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for other values."""
        found = []
        for name, item in value.items():
            check_name(name)
            dtype, shape = item["dtype"], item["shape"]
            if not isinstance(dtype, str) or not isinstance(shape, list):
                raise TypeError(f"column {name!r}: dtype must be text and shape a list")
            found.append(Field(name=name, dtype=dtype, shape=tuple(None if n == -1 else int(n) for n in shape)))
        return cls.of(*found)


def check_name(name: str) -> str:
    """``name`` if it can name a stored column. Raises ``ValueError`` if not."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can't name a column: letters, digits, '_', '.', '-', at most 128, no digit first")
    return name
