"""Content: the flat form of columns, and the digests that say what the bytes are apart from how they are stored.

Flat form: ``values`` (little-endian) and, if ragged, int64 ``offsets`` that start at 0. ``text`` becomes UTF-8,
``json`` becomes JSON text (order of keys kept: a template may see it), ``bytes`` itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from dsbuild import canon
from dsbuild.digest import Digest, Domain, hasher, of_value
from dsbuild.records.columns import Column, Missing, Records
from dsbuild.schema import OBJECTS, Field


def flatten(field: Field, column: Column) -> tuple[np.ndarray, np.ndarray | None]:
    """The flat form of ``column``: (values, offsets or None). Raises ``ValueError`` for a value that has none."""
    if field.dtype in OBJECTS:
        pieces = [_to_bytes(field, value) for value in column.values]
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(p) for p in pieces], out=offsets[1:])
        return np.frombuffer(b"".join(pieces), np.uint8), offsets
    values = np.ascontiguousarray(column.values, dtype=np.dtype(field.dtype).newbyteorder("<"))
    if column.offsets is None:
        return values, None
    first, last = int(column.offsets[0]), int(column.offsets[-1])
    return values[first:last], np.ascontiguousarray(column.offsets - first, dtype="<i8")


def unflatten(field: Field, values: np.ndarray, offsets: np.ndarray | None) -> Column:
    """The column of a flat form; lists of Python values for ``text``, ``json`` and ``bytes``."""
    if field.dtype not in OBJECTS:
        return Column(values=values, offsets=offsets)
    assert offsets is not None
    data, ends = values.tobytes(), offsets.tolist()
    pieces = [data[a:b] for a, b in pairwise(ends)]
    if field.dtype == "bytes":
        return Column(values=pieces)
    if field.dtype == "text":
        return Column(values=[p.decode("utf-8") for p in pieces])
    return Column(values=[json.loads(p) for p in pieces])


def _to_bytes(field: Field, value: Any) -> bytes:
    if isinstance(value, Missing):
        raise ValueError(f"a record has no field {field.name!r}")
    if field.dtype == "bytes":
        return bytes(value)
    if field.dtype == "text":
        return str(value).encode("utf-8")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def column_digest(field: Field, values: np.ndarray, offsets: np.ndarray | None) -> Digest:
    """BLAKE3 over dtype, shape, count, offsets and values of a flat column, values as little-endian bytes."""
    rows = len(values) if offsets is None else len(offsets) - 1
    head = canon.encode({**field.as_json(), "rows": rows, "values": len(values)})
    state = hasher(Domain.COLUMN)
    state.update(len(head).to_bytes(8, "little") + head)
    if offsets is not None:
        state.update(np.ascontiguousarray(offsets, "<i8").view(np.uint8).data)
    flat = np.ascontiguousarray(values)
    if flat.size:
        state.update(flat.view(np.uint8).reshape(-1).data)
    return Digest(state.digest())


def part_digest(records: int, columns: Mapping[str, Digest]) -> Digest:
    """The content digest of a part from those of its columns."""
    return of_value(Domain.PART, {"records": records, "columns": {n: d.hex for n, d in columns.items()}})


def content_digest(records: Records) -> Digest:
    """The content digest of in-memory records: equal to that of the object they would be published as."""
    found = {}
    for field in records.schema.fields:
        values, offsets = flatten(field, records[field.name])
        found[field.name] = column_digest(field, values, offsets)
    return part_digest(len(records), found)
