"""Flat shards: the geometry and metadata of our Zarr v3 arrays, whose shard files are flat arrays from byte 0.

``sharding_indexed`` with inner codec ``bytes`` (little-endian) only, every inner chunk present and in order, the index
behind them with its crc32c. Any Zarr v3 reader reads them; ours maps the payload as one array.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np

from dsbuild.schema import OBJECTS, Field, Schema

ENCODING = "flat-1"
CHUNK_BYTES = 64 << 10
SHARD_BYTES = 64 << 20

_ABSENT = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """One Zarr array: ``path`` inside ``data.zarr``, ``dtype`` name, ``shape``, rows per ``chunk`` and ``shard``."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    chunk: int
    shard: int

    @property
    def numpy(self) -> np.dtype[Any]:
        """The little-endian dtype."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def row_bytes(self) -> int:
        """Bytes of one index of the first axis."""
        return self.numpy.itemsize * math.prod(self.shape[1:])

    @property
    def shards(self) -> int:
        """Number of shard files; 0 for an array without rows."""
        return -(-self.shape[0] // self.shard)

    @property
    def payload(self) -> int:
        """Bytes of chunks in every shard file but the last."""
        return self.shard * self.row_bytes

    def chunks(self, shard: int) -> int:
        """Number of chunks in shard file ``shard``."""
        rows = min(self.shard, self.shape[0] - shard * self.shard)
        return -(-rows // self.chunk)

    def shard_path(self, shard: int) -> str:
        """The file of shard number ``shard``, inside ``data.zarr``."""
        return self.path + "/c." + ".".join([str(shard), *["0"] * (len(self.shape) - 1)])

    def index(self, shard: int) -> bytes:
        """The index that follows the chunks of shard ``shard``: (offset, size) of each chunk, and their crc32c."""
        table = np.full((self.shard // self.chunk, 2), _ABSENT, "<u8")
        present, size = self.chunks(shard), self.chunk * self.row_bytes
        table[:present, 0] = np.arange(present, dtype=np.uint64) * np.uint64(size)
        table[:present, 1] = size
        data = table.tobytes()
        return data + int(google_crc32c.value(data)).to_bytes(4, "little")

    def metadata(self) -> bytes:
        """The array's ``zarr.json``."""
        inner = {"name": "bytes"} if self.numpy.itemsize == 1 else _LITTLE
        fill: bool | int | float = {"b": False, "f": 0.0}.get(self.numpy.kind, 0)
        rest = list(self.shape[1:])
        sharding = {
            "chunk_shape": [self.chunk, *rest],
            "codecs": [inner],
            "index_codecs": [_LITTLE, {"name": "crc32c"}],
            "index_location": "end",
        }
        return _canonical(
            {
                "attributes": {},
                "chunk_grid": {"configuration": {"chunk_shape": [self.shard, *rest]}, "name": "regular"},
                "chunk_key_encoding": {"configuration": {"separator": "."}, "name": "default"},
                "codecs": [{"configuration": sharding, "name": "sharding_indexed"}],
                "data_type": self.dtype,
                "fill_value": fill,
                "node_type": "array",
                "shape": list(self.shape),
                "zarr_format": 3,
            }
        )


_LITTLE: dict[str, Any] = {"configuration": {"endian": "little"}, "name": "bytes"}


def array(path: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """The array of ``shape`` in the one geometry that format 1 gives it.

    A chunk is a power of two of rows, at most 64 KiB (one row if that is larger), no more than the rows need. A shard
    is at most 64 MiB (one chunk if that is larger); where there are several, a whole number of 64 KiB if that fits.
    """
    rows, row = shape[0], np.dtype(dtype).itemsize * math.prod(shape[1:])
    if row == 0:
        raise ValueError(f"array {path!r} has values of no bytes: shape {shape}")
    chunk = min(1 << (max(CHUNK_BYTES // row, 1).bit_length() - 1), 1 << max(rows - 1, 0).bit_length())
    chunks, most = -(-rows // chunk), max(SHARD_BYTES // (chunk * row), 1)
    if chunks > most:
        step = CHUNK_BYTES // math.gcd(CHUNK_BYTES, chunk * row)
        chunks = most - most % step if step <= most else most
    return Array(path=path, dtype=dtype, shape=shape, chunk=chunk, shard=max(chunks, 1) * chunk)


def node(name: str) -> str:
    """The name in a Zarr hierarchy of column ``name``: itself, but for names that Zarr keeps for itself."""
    return "~" + name if name == "zarr.json" or name.startswith("__") else name


def arrays(field: Field, records: int, count: int) -> tuple[Array, Array | None]:
    """The arrays (values, offsets or None) of a column with ``count`` values on the first axis."""
    dtype = "uint8" if field.dtype in OBJECTS else field.dtype
    inner = tuple(n for n in field.shape if n is not None)
    name = node(field.name)
    if not field.ragged:
        return array(name, dtype, (records, *inner)), None
    return array(name + "/values", dtype, (count, *inner)), array(name + "/offsets", "int64", (records + 1,))


def group() -> bytes:
    """The ``zarr.json`` of a ragged column's group."""
    return _canonical({"attributes": {}, "node_type": "group", "zarr_format": 3})


def top(schema: Schema, records: int, counts: dict[str, int]) -> bytes:
    """The ``zarr.json`` of an object; ``counts``: values on the first axis of each column."""
    facts = {"counts": counts, "encoding": ENCODING, "format": 1, "records": records, "schema": schema.as_json()}
    return _canonical({"attributes": {"dsbuild": facts}, "node_type": "group", "zarr_format": 3})


def parse_top(data: bytes) -> tuple[Schema, int, dict[str, int]]:
    """(schema, records, counts) of ``top``'s bytes. Raises ``ValueError`` for anything else."""
    try:
        facts = json.loads(data)["attributes"]["dsbuild"]
        schema, records, counts = Schema.from_json(facts["schema"]), facts["records"], facts["counts"]
        same = top(schema, records, counts) == data
        numbers = [records, *counts.values()]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the description of an object: {error}") from error
    if not same or set(counts) != set(schema.names) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError("not the description of an object in this format")
    return schema, records, counts


def _canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
