"""Loaders among processes: forks at any moment, spawned workers, and nothing left behind by a thousand of them."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.load import Dataset, open_dataset
from dsbuild.schema import Field

# Python 3.12 warns of every fork of a process that has threads
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
IDS = Field(name="input_ids", dtype="uint16", shape=(None,))


def in_fork(work: Callable[[], bool], seconds: int = 20) -> str:
    """Run ``work`` in a forked child; "ok", or what became of it."""
    child = os.fork()
    if not child:
        code = 2
        try:
            signal.alarm(seconds)  # a deadlock ends in a signal
            code = 0 if work() else 1
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "ok", 1: "wrong", 2: "error", -signal.SIGALRM: "stuck"}.get(status, f"ended with {status}")


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return list(one) == list(other) and all(one[n].tobytes() == other[n].tobytes() for n in one)


def large(shelf: Any) -> Dataset:
    """Parts that are mapped, and not read as small files are."""
    draw = np.random.default_rng(3)
    parts = [{"input_ids": (IDS, [draw.integers(0, 60_000, 9_000).tolist() for _ in range(6)])} for _ in range(3)]
    dataset: Dataset = shelf.dataset(shelf.records(parts), length=64, shuffle="full")
    return dataset


@forks
@pytest.mark.parametrize("threads", [1, 3])
def test_forks_while_threads_read(corpus: Any, threads: int) -> None:
    dataset = corpus["fit-dealt"]
    expected = [dataset.batch(step, 4) for step in range(dataset.steps(4))]
    for moment in range(12):
        opened = open_dataset(dataset.digest.hex, store=dataset.store)  # so that parts are opened by the threads
        loader = opened.loader(4, prefetch=4, threads=threads)
        for step in range(moment % 3):
            assert equal(next(loader), expected[step])
        at = loader.step

        def work(loader: Any = loader, opened: Any = opened, at: int = at) -> bool:
            inherited = equal(next(loader), expected[at]) and equal(next(loader), expected[at + 1])
            own = all(equal(b, e) for b, e in zip(opened.loader(4, prefetch=2), expected, strict=True))
            loader.close()
            return inherited and own and equal(opened.batch(3, 4), expected[3])

        assert in_fork(work) == "ok"
        assert equal(next(loader), expected[at])  # the parent's goes on
        loader.close()


@forks
def test_an_inherited_loader_is_dropped_in_a_fork(corpus: Any) -> None:
    loaders = [corpus["plain"].loader(4, prefetch=3, threads=2)]
    next(loaders[0])

    def work() -> bool:
        loaders.clear()
        gc.collect()
        return True

    assert in_fork(work) == "ok"
    loaders[0].close()


@forks
@pytest.mark.parametrize("way", ["dropped", "closed", "read on"])
def test_a_fork_while_a_thread_has_the_lock(corpus: Any, way: str) -> None:
    loaders = [corpus["plain"].loader(4)]
    next(loaders[0])
    board = loaders[0]._ahead._board
    has, go = threading.Event(), threading.Event()

    def hold() -> None:
        with board._change:
            has.set()
            go.wait(20)

    def work() -> bool:
        if way == "dropped":
            loaders.clear()
            gc.collect()
            return True
        if way == "closed":
            loaders[0].close()
        return equal(next(loaders[0]), corpus["plain"].batch(1, 4))

    holder = threading.Thread(target=hold)
    holder.start()
    assert has.wait(10)
    assert in_fork(work, seconds=5) == "ok"
    go.set()
    holder.join()
    loaders[0].close()


SPAWNED = """
import pickle, sys
dataset, rank = pickle.load(sys.stdin.buffer)
with dataset.loader(8, rank, 2, prefetch=2, threads=2) as loader:
    pickle.dump([next(loader) for _ in range(4)], sys.stdout.buffer)
"""


def test_spawned_processes_of_ranks(corpus: Any) -> None:
    dataset = corpus["document"]
    with dataset.loader(8) as alive:
        next(alive)
        found = []
        for rank in range(2):
            given = pickle.dumps((dataset, rank))
            done = subprocess.run(
                [sys.executable, "-c", SPAWNED], input=given, capture_output=True, timeout=60, check=True
            )
            found.append(pickle.loads(done.stdout))
    for step in range(4):
        whole = {n: np.concatenate([batches[step][n] for batches in found]) for n in found[0][step]}
        assert equal(whole, dataset.batch(step, 8))


def test_a_pickled_dataset_is_the_same(corpus: Any) -> None:
    for name in corpus.names:
        dataset = corpus[name]
        data = pickle.dumps(dataset)
        assert len(data) < 1000
        again = pickle.loads(data)
        assert (again.digest, again.split, len(again)) == (dataset.digest, dataset.split, len(dataset))
        assert equal(again.batch(2, 8), dataset.batch(2, 8))


def held(store: Path) -> dict[str, int]:
    """What the process has open, and maps of files of ``store``."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")),
        "maps": len(maps),
        "store maps": sum(str(store) in line for line in maps),
    }


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_thousand_loaders_leave_nothing(shelf: Any, tmp_path: Path) -> None:
    mine = type(shelf)(tmp_path / "store")
    made = large(mine)
    expected = made.batch(0, 8)
    made.close()

    def cycle(number: int) -> None:
        dataset = open_dataset(made.digest.hex, store=mine.store)
        with dataset, dataset.loader(8, prefetch=1 + number % 2, threads=1 + number % 3) as loader:
            assert equal(next(loader), expected)
            if number % 50 == 0:
                assert held(tmp_path)["store maps"] > 0

    for number in range(30):
        cycle(number)
    gc.collect()
    before = held(tmp_path)
    assert before["store maps"] == 0
    for number in range(1000):
        cycle(number)
    gc.collect()
    deadline = time.monotonic() + 5
    while held(tmp_path)["tasks"] > before["tasks"] and time.monotonic() < deadline:
        time.sleep(0.01)
    after = held(tmp_path)
    assert after["maps"] <= before["maps"] + 30  # the allocator's own
    assert all(after[name] <= before[name] for name in after if name != "maps")


def test_dropped_loaders_leave_no_thread(corpus: Any) -> None:
    before = threading.active_count()
    for _ in range(50):
        next(corpus["plain"].loader(8, prefetch=2, threads=2))
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_threads_share_a_dataset(shelf: Any) -> None:
    """Columns of a part are mapped by whichever thread comes first, and stay mapped for all."""
    made = large(shelf)
    expected = [made.batch(step, 64)["input_ids"].tobytes() for step in range(made.steps(64))]
    for _ in range(6):
        dataset = open_dataset(made.digest.hex, store=shelf.store)
        start, wrong = threading.Barrier(4), []

        def work(dataset: Dataset = dataset, start: Any = start, wrong: list[int] = wrong) -> None:
            start.wait()
            for step, want in enumerate(expected):
                if dataset.batch(step, 64)["input_ids"].tobytes() != want:
                    wrong.append(step)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not wrong
