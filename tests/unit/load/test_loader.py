"""Loaders: numbers that make no sense, ends, empty shares, long streams, and few parts kept open."""

from __future__ import annotations

import json
import sys
import threading
import time
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest

from dsbuild.load import Dataset, RangeError, source
from dsbuild.load import dataset as datasets
from dsbuild.order.partition import Schedule
from dsbuild.schema import Field

IDS = Field(name="input_ids", dtype="uint16", shape=(None,))


def parts(count: int = 3) -> list[dict[str, Any]]:
    return [{"input_ids": (IDS, [list(range(p * 100, p * 100 + 40)), [p] * 9])} for p in range(count)]


@pytest.fixture(scope="module")
def dataset(shelf: Any) -> Dataset:
    found: Dataset = shelf.dataset(shelf.records(parts()), shuffle="full", mask="document")
    return found


@pytest.fixture(scope="module")
def endless(shelf: Any) -> Dataset:
    """About 10^13 examples."""
    found: Dataset = shelf.dataset(
        shelf.records(parts()), shelf.records(parts(5)), shuffle="full", mixture={"until": Fraction(10**12)}
    )
    assert len(found) > 10**13
    return found


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0,), {}),
        ((-4,), {}),
        ((2.5,), {}),
        (("8",), {}),
        ((8, 0, 3), {}),
        ((8, 2, 2), {}),
        ((8, -1, 2), {}),
        ((8, 0, 0), {}),
        ((8,), {"prefetch": -1}),
        ((8,), {"threads": 0}),
        ((8,), {"start": -1}),
        ((8,), {"columns": ["text"]}),
        ((8,), {"dtype": "float32"}),
        ((Schedule(starts=(0, 2), sizes=(8, 9)), 0, 4), {}),
    ],
)
def test_what_makes_no_sense_is_told_at_once(dataset: Dataset, arguments: Any, options: Any) -> None:
    before = threading.active_count()
    with pytest.raises(RangeError):
        dataset.loader(*arguments, **options)
    assert threading.active_count() == before


def test_no_thread_before_the_first_batch(dataset: Dataset) -> None:
    before = threading.active_count()
    loader = dataset.loader(2, threads=3)
    assert threading.active_count() == before
    next(loader)
    assert threading.active_count() == before + 3
    loader.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_end(dataset: Dataset, prefetch: int) -> None:
    before = threading.active_count()
    loader = dataset.loader(4, prefetch=prefetch)
    assert iter(loader) is loader
    assert len(list(loader)) == dataset.steps(4) == loader.step
    assert threading.active_count() == before
    assert next(loader, None) is None and list(loader) == []
    loader.seek(dataset.steps(4) - 1)
    assert len(list(loader)) == 1
    loader.seek(dataset.steps(4))
    assert next(loader, None) is None and loader.position == 4 * dataset.steps(4)
    for step in (-1, dataset.steps(4) + 1, 10**9, 1.5, "1", None):
        with pytest.raises(RangeError):
            loader.seek(step)  # type: ignore[arg-type]
    loader.seek(np.int64(1))  # type: ignore[arg-type]
    assert (next(loader)["input_ids"] == dataset.batch(np.uint8(1), 4)["input_ids"]).all()  # type: ignore[arg-type]
    assert len(list(dataset.loader(len(dataset) + 1))) == 0


def test_closed_loaders_can_go_on(dataset: Dataset) -> None:
    with dataset.loader(2) as loader:
        first = [next(loader)["input_ids"] for _ in range(2)]
    second = [batch["input_ids"] for batch in loader]
    expected = [dataset.batch(step, 2)["input_ids"] for step in range(dataset.steps(2))]
    assert all((a == b).all() for a, b in zip(first + second, expected, strict=True))
    dataset.close()
    assert (dataset.batch(0, 2)["input_ids"] == expected[0]).all()


def test_sizes_of_numpy_make_states_of_json(dataset: Dataset) -> None:
    for size in (np.int64(4), Schedule(starts=(0,), sizes=(np.int64(4),))):  # type: ignore[arg-type]
        loader = dataset.loader(size, start=np.int64(1))  # type: ignore[arg-type]
        next(loader)
        state = json.loads(json.dumps(loader.state_dict()))
        loader.load_state_dict(state)
        assert (loader.step, loader.position) == (2, 8)
        loader.close()


def test_a_schedule(dataset: Dataset) -> None:
    schedule = Schedule(starts=(0, 2, 3), sizes=(2, 3, 5))
    sizes, at = [2, 2, 3, 5], 0
    for step, (size, batch) in enumerate(zip(sizes, dataset.loader(schedule), strict=False)):
        want = dataset.examples(at, at + size)
        assert all((batch[n] == want[n]).all() for n in want)
        assert (dataset.batch(step, schedule)["labels"] == want["labels"]).all()
        at += size
    assert dataset.steps(schedule) == len(list(dataset.loader(schedule)))


@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_rank_without_rows_in_a_long_stream(endless: Dataset, prefetch: int) -> None:
    """More ranks than examples: some have none in any batch, and must not look for one to the stream's end."""
    with endless.loader(3, 0, 8, uneven=True, prefetch=prefetch) as loader:
        started = time.monotonic()
        assert [len(batch["input_ids"]) for batch in islice(loader, 50)] == [0] * 50
        assert time.monotonic() - started < 5


def test_long_streams(endless: Dataset) -> None:
    far = int(0.9 * len(endless)) // 8
    with endless.loader(8, start=far, threads=2) as loader:
        for step in range(far, far + 20):
            got, want = next(loader), endless.batch(step, 8)
            assert all((got[n] == want[n]).all() for n in want)
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 200
    again = endless.loader(8)
    again.load_state_dict(state)
    assert (next(again)["input_ids"] == endless.batch(far + 20, 8)["input_ids"]).all()
    again.close()
    assert len(endless.orders) < 200


@pytest.mark.parametrize("threads", [1, 3])
def test_few_parts_stay_open(shelf: Any, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    made = shelf.dataset(shelf.records(parts(9)), shuffle="full")
    expected = [made.batch(step, 4) for step in range(made.steps(4))]
    assert len(made.sources[0].opened) == 9
    made.close()
    monkeypatch.setattr(source, "PARTS_OPEN", 2)
    for batch, want in zip(made.loader(4, threads=threads, prefetch=4), expected, strict=True):
        assert all((batch[n] == want[n]).all() for n in want)
        assert len(made.sources[0].opened) < 2 + threads  # each thread may add one beside the others


def test_few_orders_are_kept(endless: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(s.length for s in endless.sources)
    expected = [endless.batch(step, size) for step in range(12)]  # each of an epoch of its own
    endless.orders.clear()
    monkeypatch.setattr(datasets, "ORDERS_KEPT", 3)
    for batch, want in zip(islice(endless.loader(size), 12), expected, strict=True):
        assert all((batch[n] == want[n]).all() for n in want)
    assert len(endless.orders) <= 3


@pytest.mark.parametrize("pack", ["concat", "fit"])
def test_threads_gather_the_rows_of_one_stretch(shelf: Any, pack: str) -> None:
    """Rows of several pieces, made by many threads at once of what was looked up together."""
    draw = np.random.default_rng(2)
    rows = [draw.integers(0, 60_000, size).tolist() for size in draw.integers(1, 4, 4000).tolist()]
    view = shelf.split(shelf.records([{"input_ids": (IDS, rows)}]), [list(range(0, 4000, 2))])
    if pack == "fit":
        view = shelf.pack(view, [[[at, at + 2, at + 4] for at in range(0, 3990, 6)]], 8)
    made = shelf.dataset(view, pack=pack, mask="document")
    expected = [made.batch(step, 2) for step in range(made.steps(2))]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(4):
            for batch, want in zip(made.loader(2, threads=4, prefetch=16), expected, strict=True):
                assert all((batch[n] == want[n]).all() for n in want)
    finally:
        sys.setswitchinterval(switch)


def test_a_row_of_int32_is_the_same_alone(shelf: Any) -> None:
    """Tokens that need no cast share no memory with the labels that are made of them."""
    rows = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    for stored in ("int32", "int64"):
        for pack, mask in (("concat", "document"), ("none", "none")):
            at = shelf.records([{"input_ids": (Field(name="input_ids", dtype=stored, shape=(None,)), rows)}])
            made = shelf.dataset(at, pack=pack, length=4, mask=mask)
            whole = made.examples(0, len(made), dtype=stored)
            for index in range(len(made)):
                alone = made.examples(index, index + 1, dtype=stored, columns=("labels", "input_ids"))
                assert all((alone[n][0] == whole[n][index]).all() for n in alone)


def test_reused_arrays_are_in_a_dict_of_the_callers(endless: Dataset) -> None:
    loader = endless.loader(4, prefetch=1, reuse=True)
    for _ in range(8):
        batch = next(loader)
        del batch["labels"]
        batch["input_ids"] = None  # type: ignore[assignment]
