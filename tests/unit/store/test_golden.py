"""Format 1, byte for byte: these digests never change while `format` says 1. `docs/internals/store-format.md` rules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.records import Column, Records
from dsbuild.schema import KEY, Field, Schema
from dsbuild.store import Manifest, Realisation, Store, manifest, realisation, roots

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "store.json").read_text())
A, B, C = (Digest(bytes([i]) * 32) for i in (1, 2, 3))


def make_records() -> Records:
    """Every dtype family, a column of several blocks, and reserved names."""
    n, each = 1000, 70
    fields = Schema.of(
        Field(name=KEY, dtype="uint64"),
        Field(name="flag", dtype="bool"),
        Field(name="image", dtype="uint8", shape=(2, 3)),
        Field(name="input_ids", dtype="uint16", shape=(None,)),
        Field(name="pairs", dtype="float32", shape=(None, 2)),
        Field(name="zarr.json", dtype="text"),
    )
    offsets, flat = np.arange(n + 1) * each, np.arange(n * each)
    columns = {
        KEY: Column(values=np.arange(n, dtype=np.uint64) << np.uint64(40)),
        "flag": Column(values=np.arange(n) % 3 == 0),
        "image": Column(values=(np.arange(n * 6) % 251).astype(np.uint8).reshape(n, 2, 3)),
        "input_ids": Column(values=(flat % 60_000).astype(np.uint16), offsets=offsets),
        "pairs": Column(values=np.stack([flat[:n], flat[:n]], axis=1).astype(np.float32), offsets=np.arange(n + 1)),
        "zarr.json": Column(values=["é" * (i % 4) for i in range(n)]),
    }
    return Records(schema=fields, columns=columns)


def make_manifest() -> Manifest:
    return Manifest(
        derivation=A,
        schema=make_records().schema,
        actions=np.full((2, 32), 7, np.uint8),
        contents=np.full((2, 32), 9, np.uint8),
        records=np.array([3, 4]),
        elements={"input_ids": np.array([30, 40])},
        longest={"input_ids": np.array([10, 20])},
        part_segments=np.array([0, 1, 3]),
        segment_file=np.array([0, 1, 1]),
        segment_first=np.array([0, 0, 5]),
    )


def test_object(store: Store) -> None:
    records = make_records()
    made = store.write(records.schema, [records])
    assert {"content": made.content.hex, "encoding": made.encoding.hex} == GOLDEN["object"]
    empty = store.write(records.schema, [])
    assert {"content": empty.content.hex, "encoding": empty.encoding.hex} == GOLDEN["empty object"]


def test_manifest() -> None:
    assert of_bytes(Domain.FILE, manifest.render(make_manifest())).hex == GOLDEN["manifest"]


def test_realisation() -> None:
    made = Realisation(content=B, records=3, elements={"x": 4}, longest={"x": 2}, skips=({"reason": "é"},), skipped=1)
    assert realisation.render(C, made).decode() == GOLDEN["realisation"]


def test_root() -> None:
    assert roots._render("tiny", 3, A).decode() == GOLDEN["root"]


def test_partial_and_cuts(store: Store) -> None:
    store.partial(A, [B, C])
    store.put_cut_table(A, b"cuts")
    assert Path(store.layout.partial(A)).read_bytes().hex() == GOLDEN["partial"]
    assert Path(store.layout.cuts(A)).read_bytes().hex() == GOLDEN["cuts"]
