"""Objects: written, read back, verified; readable by zarr-python; equal by content digest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.records import Column, Records, content_digest
from dsbuild.schema import Field, Schema
from dsbuild.store import Store, StoredObject, flatshards
from dsbuild.store.listing import BLOCK

Make = Callable[..., Records]


def split(records: Records, *at: int) -> list[Records]:
    borders = [0, *at, len(records)]
    return [records.take(np.arange(a, b)) for a, b in itertools.pairwise(borders)]


@pytest.mark.parametrize("n", [0, 1, 5, 5000])
def test_round_trip(store: Store, make_records: Make, n: int) -> None:
    records = make_records(n)
    published = store.write(records.schema, split(records, n // 3, n // 2))
    assert published.content == content_digest(records)
    assert published.records == n
    assert published.elements["input_ids"] == len(records["input_ids"].values)
    lengths = np.diff(records["input_ids"].offsets)
    assert published.longest["input_ids"] == (lengths.max() if n else 0)
    found = store.object(published.content)
    assert (found.records, found.schema, found.size) == (n, records.schema, published.bytes)
    assert content_digest(found.records_view()) == published.content
    assert found.records_view(["text"])["text"].values == records["text"].values


@pytest.mark.parametrize("n", [0, 1, 5, 5000])
def test_zarr_python_reads_the_same(store: Store, make_records: Make, n: int) -> None:
    records = make_records(n)
    found = store.object(store.write(records.schema, [records]).content)
    _assert_zarr_agrees(found)


def _assert_zarr_agrees(found: StoredObject) -> None:
    group = zarr.open_group(f"{found.path}/data.zarr", mode="r")
    assert sorted(group) == sorted(flatshards.node(name) for name in found.schema.names)
    for name in found.schema.names:
        values, offsets = found.column(name)
        found.touch(name, 0, len(values))
        there = group[flatshards.node(name)]
        if offsets is not None:
            assert np.array_equal(there["offsets"][...], offsets)
            there = there["values"]
        assert there.dtype == values.dtype
        assert np.array_equal(there[...], values)


def test_reserved_column_names(store: Store) -> None:
    schema = Schema.of(Field(name="zarr.json", dtype="text"), Field(name="__x", dtype="int8"))
    records = Records(
        schema=schema, columns={"zarr.json": Column(values=["a"]), "__x": Column(values=np.ones(1, np.int8))}
    )
    found = store.object(store.write(schema, [records]).content)
    _assert_zarr_agrees(found)


@pytest.mark.parametrize("row", [(), (3,), (100,), (1999,)])
def test_many_shards(store: Store, monkeypatch: pytest.MonkeyPatch, row: tuple[int, ...]) -> None:
    monkeypatch.setattr(flatshards, "SHARD_BYTES", 1 << 20)
    rng = np.random.default_rng(1)
    values = rng.integers(0, 256, (3_500_000 // (int(np.prod(row)) or 1), *row)).astype(np.uint8)
    schema = Schema.of(Field(name="x", dtype="uint8", shape=row))
    published = store.write(schema, [Records(schema=schema, columns={"x": Column(values=values)})])
    found = store.object(published.content)
    assert sum("/x/c." in path for path in found.listing.entries) >= 3
    view, _ = found.column("x")
    assert np.array_equal(view, values)
    found.touch("x", 0, len(values))
    _assert_zarr_agrees(found)
    _flip(found, f"x/c.2{'.0' * len(row)}", 70_000)
    again = store.object(published.content)
    with pytest.raises(CorruptError, match=r"x/c\.2"):
        again.column("x")
        again.touch("x", 0, len(values))


def test_views_are_read_only_and_outlive_the_object(store: Store, make_records: Make) -> None:
    records = make_records(5000)
    found = store.object(store.write(records.schema, [records]).content)
    values, offsets = found.column("input_ids")
    window = values[100:200]
    del found, values
    assert offsets is not None
    assert not window.flags.writeable
    assert not offsets.flags.writeable
    assert np.array_equal(window, records["input_ids"].values[100:200])


def _flip(found: StoredObject, path: str, at: int) -> None:
    file = Path(found.path) / "data.zarr" / path
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(data)


def test_touch_verifies_the_blocks_that_it_covers(store: Store, make_records: Make) -> None:
    records = make_records(5000)
    content = store.write(records.schema, [records]).content
    _flip(store.object(content), "input_ids/values/c.0", BLOCK + 10)
    found = store.object(content)
    per = BLOCK // 2
    found.touch("input_ids", 0, per)
    found.touch("input_ids", 2 * per, 2 * per + 1)
    found.touch("input_ids", per, per)
    with pytest.raises(CorruptError, match=rf"object {content.short}: column 'input_ids': .*values/c\.0, block 1 "):
        found.touch("input_ids", per - 1, per + 1)
    with pytest.raises(CorruptError):  # and again: a failure is not remembered as verified
        found.touch("input_ids", per, per + 1)


def test_policies(store: Store, make_records: Make) -> None:
    records = make_records(5000)
    content = store.write(records.schema, [records]).content
    _flip(store.object(content), "input_ids/values/c.0", 10)
    with pytest.raises(CorruptError):
        store.object(content, verify="open")
    store.object(content, verify="never").touch("input_ids", 0, 10)
    with pytest.raises(ValueError, match="sometimes"):
        store.object(content, verify="sometimes")


def test_offsets_are_verified_before_they_are_handed_out(store: Store, make_records: Make) -> None:
    records = make_records(5000)
    content = store.write(records.schema, [records]).content
    _flip(store.object(content), "input_ids/offsets/c.0", 10)
    found = store.object(content)
    found.column("text")
    with pytest.raises(CorruptError, match="offsets"):
        found.column("input_ids")


def test_absent(store: Store) -> None:
    with pytest.raises(NotFoundError):
        store.object(Digest(bytes(32)))
    assert not store.has_object(Digest(bytes(32)))


def test_unknown_column(store: Store, make_records: Make) -> None:
    records = make_records(2)
    with pytest.raises(KeyError):
        store.object(store.write(records.schema, [records]).content).column("nope")
