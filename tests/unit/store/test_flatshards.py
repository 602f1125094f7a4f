"""Geometry and metadata of the arrays."""

from __future__ import annotations

import json
import struct

import google_crc32c
import pytest

from dsbuild.schema import Field, Schema
from dsbuild.store.flatshards import CHUNK_BYTES, SHARD_BYTES, array, arrays, group, node, parse_top, top


@pytest.mark.parametrize(
    ("dtype", "shape", "chunk", "shard"),
    [
        ("uint16", (0,), 1, 1),
        ("uint16", (1,), 1, 1),
        ("uint16", (3,), 4, 4),
        ("uint16", (32768,), 32768, 32768),
        ("uint16", (32769,), 32768, 65536),
        ("int64", (1 << 23,), 8192, 1 << 23),
        ("int64", ((1 << 23) + 1,), 8192, 1 << 23),
        ("uint8", (10, 224, 224, 3), 1, 10),
        ("uint8", (1000, 224, 224, 3), 1, 384),
    ],
)
def test_geometry(dtype: str, shape: tuple[int, ...], chunk: int, shard: int) -> None:
    found = array("x", dtype, shape)
    assert (found.chunk, found.shard) == (chunk, shard)
    assert found.shard % found.chunk == 0
    assert found.payload <= max(SHARD_BYTES, found.row_bytes)
    if found.shards > 1:
        assert found.payload % CHUNK_BYTES == 0


def test_a_row_that_never_fills_pages_still_fits_a_shard() -> None:
    found = array("x", "uint8", (100_000, 2001))
    assert found.shards > 1
    assert found.payload <= SHARD_BYTES


def test_values_without_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="no bytes"):
        array("x", "uint8", (3, 0))


def test_index_says_where_chunks_are() -> None:
    found = array("x", "uint16", (40_000,))
    index = found.index(0)
    assert struct.unpack("<4Q", index[:-4]) == (0, 65536, 65536, 65536)
    assert index[-4:] == google_crc32c.value(index[:-4]).to_bytes(4, "little")


def test_index_of_a_part_filled_shard_marks_absent_chunks() -> None:
    found = array("x", "uint8", (SHARD_BYTES + 1,))
    entries = struct.unpack("<2048Q", found.index(1)[:-4])
    assert entries[:2] == (0, 65536)
    assert set(entries[2:]) == {(1 << 64) - 1}


def test_metadata_is_canonical() -> None:
    data = array("x", "bool", (5,)).metadata()
    assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
    assert json.loads(group()) == {"attributes": {}, "node_type": "group", "zarr_format": 3}


def test_names_that_zarr_keeps_are_moved() -> None:
    assert node("zarr.json") == "~zarr.json"
    assert node("__meta") == "~__meta"
    assert node("@key") == "@key"
    values, offsets = arrays(Field(name="zarr.json", dtype="text"), 2, 9)
    assert values.path == "~zarr.json/values"
    assert offsets is not None
    assert offsets.shape == (3,)


def test_top_round_trips_and_refuses_others() -> None:
    schema = Schema.of(Field(name="a", dtype="text"), Field(name="b", dtype="int8", shape=(None, 2)))
    data = top(schema, 3, {"a": 7, "b": 1})
    assert parse_top(data) == (schema, 3, {"a": 7, "b": 1})
    for bad in (
        b"",
        b"[]",
        b"{}",
        data[:-1],
        data.replace(b":7", b":-7"),
        data.replace(b"flat-1", b"flat-2"),
        data + b" ",
    ):
        with pytest.raises(ValueError, match=r"."):
            parse_top(bad)
