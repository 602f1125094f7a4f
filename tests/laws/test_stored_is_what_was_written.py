"""Law: an object does not depend on the blocks that it came in, and no reader is given bytes that differ."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsbuild.errors import CorruptError
from dsbuild.records import Column, Records, content_digest
from dsbuild.schema import NUMBERS, Field, Schema
from dsbuild.store import Store, flat, stored
from dsbuild.store.listing import BLOCK

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    root = Path(tempfile.mkdtemp())
    yield Store.open(root / "store", create=True)
    shutil.rmtree(root)


@st.composite
def fields(draw: st.DrawFn) -> Field:
    name = draw(st.from_regex(r"@?[a-z_][a-z0-9_.]{0,5}", fullmatch=True))
    dtype = draw(st.sampled_from(["text", "json", "bytes", *NUMBERS]))
    shape: tuple[int | None, ...] = ()
    if dtype in NUMBERS:
        shape = draw(st.sampled_from([(), (2,), (2, 3), (None,), (None, 2)]))
    return Field(name=name, dtype=dtype, shape=shape)


@st.composite
def records(draw: st.DrawFn) -> Records:
    chosen = draw(st.lists(fields(), min_size=1, max_size=4, unique_by=lambda f: f.name.lower()))
    n = draw(st.integers(0, 20))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    columns = {}
    for field in chosen:
        if field.dtype == "json":
            columns[field.name] = Column(values=[{"k": i, "é": [None, True]} for i in range(n)])
        elif field.dtype in ("text", "bytes"):
            pieces = ["é" * int(k) for k in rng.integers(0, 4, n)]
            columns[field.name] = Column(values=pieces if field.dtype == "text" else [p.encode() for p in pieces])
        else:
            offsets = None
            if field.ragged:
                offsets = np.zeros(n + 1, np.int64)
                np.cumsum(rng.integers(0, 5, n), out=offsets[1:])
            rows = n if offsets is None else int(offsets[-1])
            inner = tuple(k for k in field.shape if k is not None)
            values = rng.integers(0, 2, (rows, *inner)).astype(field.dtype)
            columns[field.name] = Column(values=values, offsets=offsets)
    return Records(schema=Schema.of(*chosen), columns=columns)


def in_blocks(whole: Records, cuts: Iterable[int]) -> list[Records]:
    borders = [0, *sorted(c % (len(whole) + 1) for c in cuts), len(whole)]
    return [whole.take(np.arange(a, b)) for a, b in itertools.pairwise(borders)]


def holds_blocks(store: Store, whole: Records, cuts: list[int]) -> None:
    made = store.write(whole.schema, in_blocks(whole, cuts))
    assert made.content == content_digest(whole)
    assert content_digest(store.object(made.content, verify="open").records_view()) == made.content
    assert store.write(whole.schema, [whole]) == made


@FEW
@given(records(), st.lists(st.integers(0, 100), max_size=4))
def test_blocks_do_not_matter(store: Store, whole: Records, cuts: list[int]) -> None:
    holds_blocks(store, whole, cuts)


def test_mutant_that_forgets_earlier_blocks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    original = flat._Growing.add

    def forgetful(self: flat._Growing, block: Records) -> None:
        self.end = 0
        original(self, block)

    monkeypatch.setattr(flat._Growing, "add", forgetful)
    field = Field(name="x", dtype="text")
    whole = Records(schema=Schema.of(field), columns={"x": Column(values=["a", "b", "c"])})
    with pytest.raises(AssertionError):
        holds_blocks(store, whole, [1])


COUNT = 5 * BLOCK // 2 + 77


@pytest.fixture(scope="module")
def damaged(store: Store) -> tuple[Store, Path, Records]:
    values = np.random.default_rng(3).integers(0, 60000, COUNT).astype(np.uint16)
    whole = Records(schema=Schema.of(Field(name="x", dtype="uint16")), columns={"x": Column(values=values)})
    path = Path(store.object(store.write(whole.schema, [whole]).content).path) / "data.zarr" / "x" / "c.0"
    path.chmod(0o644)
    return store, path, whole


def holds_touch(damaged: tuple[Store, Path, Records], at: int, windows: list[tuple[int, int]]) -> None:
    """With byte ``at`` of the values flipped, windows are right or refused, and refused only where it is near."""
    store, path, whole = damaged
    sound = path.read_bytes()
    try:
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        found = store.object(content_digest(whole))
        for start, size in windows:
            stop = min(start + size, COUNT)
            try:
                found.touch("x", start, stop)
            except CorruptError:
                assert start * 2 // BLOCK <= at // BLOCK <= (stop * 2 - 1) // BLOCK
            else:
                assert np.array_equal(found.column("x")[0][start:stop], whole["x"].values[start:stop])
    finally:
        path.write_bytes(sound)


windows = st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, 40_000)), min_size=1, max_size=12)


@FEW
@given(st.integers(0, 2 * COUNT - 1), windows)
def test_no_wrong_value(damaged: tuple[Store, Path, Records], at: int, windows: list[tuple[int, int]]) -> None:
    holds_touch(damaged, at, windows)


def test_mutant_that_forgets_the_last_block(
    damaged: tuple[Store, Path, Records], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = stored._Mapped.touch

    def short(self: stored._Mapped, start: int, stop: int) -> None:
        original(self, start, stop - BLOCK // 2)

    monkeypatch.setattr(stored._Mapped, "touch", short)
    with pytest.raises(AssertionError):
        holds_touch(damaged, BLOCK + 4, [(BLOCK // 2 - 5, 50)])
