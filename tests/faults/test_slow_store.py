"""A store that is slower than memory costs a trainer nothing, as long as it is faster than the trainer."""

from __future__ import annotations

import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

from dsbuild.load import Dataset, Loader
from dsbuild.load import loader as loading

STORE, STEP, STEPS = 0.015, 0.020, 30


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    right = loading.gather

    def gather(*arguments: Any) -> Any:
        time.sleep(seconds)
        return right(*arguments)

    monkeypatch.setattr(loading, "gather", gather)


def ready(loader: Loader) -> bool:
    """Whether the next batch is there already."""
    assert loader._ahead is not None
    board = loader._ahead._board
    return board._taken in board._results


def train(dataset: Dataset, **options: Any) -> tuple[float, int]:
    """(seconds over those of the training itself, batches that were waited for) of ``STEPS`` steps after the first."""
    with dataset.loader(8, **options) as loader:
        next(loader)
        over, late = 0.0, 0
        for _ in range(STEPS):
            time.sleep(STEP)
            late += not options["prefetch"] or not ready(loader)
            before = time.monotonic()
            next(loader)
            over += time.monotonic() - before
    return over, late


def best(dataset: Dataset, **options: Any) -> tuple[float, int]:
    """The better of a few tries: another process may have taken the machine."""
    found = []
    for _ in range(4):
        found.append(train(dataset, **options))
        if found[-1][0] < 0.1 * STEP * STEPS and found[-1][1] <= 2:
            break
    return min(found)


def test_the_store_hides_behind_the_trainer(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = corpus["document"]
    slow(monkeypatch, STORE)
    over, late = best(dataset, prefetch=2)
    assert over < 0.1 * STEP * STEPS
    assert late <= STEPS // 10


def test_threads_hide_a_store_that_is_slower_than_the_trainer(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, 2 * STORE)
    over, late = best(corpus["document"], prefetch=6, threads=3)
    assert over < 0.1 * STEP * STEPS
    assert late <= STEPS // 10


def test_negative_control(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without prefetching every batch is waited for, so that the measure can fail."""
    slow(monkeypatch, STORE)
    over, late = train(corpus["document"], prefetch=0)
    assert over > 0.5 * STEP * STEPS
    assert late == STEPS


def test_order_under_uneven_delays(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, draw, right = corpus["fit"], np.random.default_rng(1), loading.gather
    expected = [dataset.batch(step, 8)["input_ids"] for step in range(20)]

    def gather(*arguments: Any) -> Any:
        time.sleep(float(draw.random()) * 4e-3)
        return right(*arguments)

    monkeypatch.setattr(loading, "gather", gather)
    with dataset.loader(8, prefetch=5, threads=4) as loader:
        assert all((next(loader)["input_ids"] == e).all() for e in expected)


def test_a_store_that_is_stuck_is_reported(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go, right = threading.Event(), loading.gather

    def gather(*arguments: Any) -> Any:
        go.wait(10)
        return right(*arguments)

    monkeypatch.setattr(loading, "gather", gather)
    monkeypatch.setattr(loading, "PATIENCE", 0.02)
    dataset = corpus["plain"]
    threading.Timer(0.1, go.set).start()
    with dataset.loader(8, start=3) as loader, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        next(loader)
    told = [str(w.message) for w in caught if w.category is RuntimeWarning]
    assert told
    assert all("from step 3" in message and str(dataset.store.root) in message for message in told)
