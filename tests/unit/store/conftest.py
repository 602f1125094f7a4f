"""Fixtures of the store's tests: an empty store, and records with a column of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dsbuild.records import Column, Records
from dsbuild.schema import KEY, RECORD, Field, Schema
from dsbuild.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


@pytest.fixture
def make_records() -> Callable[..., Records]:
    return _make_records


def _make_records(n: int, seed: int = 0, longest: int = 50) -> Records:
    rng = np.random.default_rng(seed)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(rng.integers(0, longest, n), out=offsets[1:])
    numbers = {
        KEY: ("uint64", (), rng.integers(0, 2**63, n).astype(np.uint64)),
        RECORD: ("int64", (), np.arange(n)),
        "flag": ("bool", (), rng.random(n) < 0.5),
        "image": ("uint8", (3, 5), rng.integers(0, 256, (n, 3, 5)).astype(np.uint8)),
        "score": ("float32", (), rng.random(n, np.float32)),
    }
    fields = [Field(name=name, dtype=dtype, shape=shape) for name, (dtype, shape, _) in numbers.items()]
    columns = {name: Column(values=values) for name, (_, _, values) in numbers.items()}
    fields += [
        Field(name="input_ids", dtype="uint16", shape=(None,)),
        Field(name="pairs", dtype="int32", shape=(None, 2)),
        Field(name="text", dtype="text"),
        Field(name="meta", dtype="json"),
        Field(name="raw", dtype="bytes"),
    ]
    total = int(offsets[-1])
    columns["input_ids"] = Column(values=rng.integers(0, 60000, total).astype(np.uint16), offsets=offsets)
    columns["pairs"] = Column(values=rng.integers(-9, 9, (total, 2)).astype(np.int32), offsets=offsets)
    columns["text"] = Column(values=["é" * int(k) for k in rng.integers(0, 9, n)])
    columns["meta"] = Column(values=[{"b": int(k), "a": [None, "x"]} for k in rng.integers(0, 9, n)])
    columns["raw"] = Column(values=[rng.bytes(int(k)) for k in rng.integers(0, 9, n)])
    return Records(schema=Schema.of(*fields), columns=columns)
