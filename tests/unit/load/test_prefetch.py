"""Prefetch: order, bounds, errors in their place, and threads that always end."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from dsbuild.load.prefetch import Prefetch


def workers() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name == "dsbuild-prefetch"}


def soon(condition: Callable[[], bool]) -> bool:
    """Whether ``condition`` comes true within seconds."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()


def value(found: Any) -> Any:
    return found


def numbers(count: int) -> Iterator[Callable[[], int]]:
    return iter([partial(value, i) for i in range(count)])


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("depth", [1, 2, 7])
def test_order(threads: int, depth: int) -> None:
    draw = random.Random(threads * depth)

    def slow(number: int, seconds: float) -> int:
        time.sleep(seconds)
        return number

    jobs = iter([partial(slow, i, draw.random() * 2e-3) for i in range(60)])
    assert list(Prefetch(jobs, depth=depth, threads=threads)) == list(range(60))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 3])
def test_no_more_than_depth_are_begun(threads: int, depth: int) -> None:
    begun: list[int] = []
    found = Prefetch(iter([partial(begun.append, i) for i in range(40)]), depth=depth, threads=threads)
    for taken in range(40):
        bound = min(taken + depth, 40)
        assert soon(partial(reached, begun, bound))
        time.sleep(1e-3)
        assert len(begun) == bound
        next(found)
    assert sorted(begun) == list(range(40))


def reached(begun: list[int], count: int) -> bool:
    return len(begun) >= count


def test_jobs_are_taken_by_one_thread_at_a_time() -> None:
    inside, most = 0, 0

    def jobs() -> Iterator[Callable[[], int]]:
        nonlocal inside, most
        for i in range(100):
            inside += 1
            most = max(most, inside)
            time.sleep(1e-4)
            inside -= 1
            yield partial(value, i)

    assert list(Prefetch(jobs(), depth=8, threads=4)) == list(range(100))
    assert most == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_an_error_in_its_place_and_nothing_after(threads: int) -> None:
    def wrong() -> int:
        raise ValueError("job 3")

    made = [*numbers(3), wrong, *numbers(50)]
    found = Prefetch(iter(made), depth=6, threads=threads)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    assert soon(lambda: len(found._board._results) >= 1)
    time.sleep(0.02)  # jobs behind it are done
    with pytest.raises(ValueError, match="job 3"):
        next(found)
    assert not found.alive
    assert list(found) == []
    assert not workers()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_the_jobs(threads: int) -> None:
    def jobs() -> Iterator[Callable[[], int]]:
        yield from numbers(5)
        raise KeyError("no more")

    found, seen = Prefetch(jobs(), depth=3, threads=threads), []
    with pytest.raises(KeyError, match="no more"):
        for number in found:
            seen.append(number)
    assert seen == [0, 1, 2, 3, 4]
    assert list(found) == []


def test_a_job_that_raises_the_end_is_an_error() -> None:
    def ends() -> int:
        raise StopIteration

    found = Prefetch(iter([partial(value, 0), ends, partial(value, 1)]), depth=1)
    assert next(found) == 0
    with pytest.raises(RuntimeError, match="StopIteration"):
        next(found)


def test_errors_beyond_exceptions_arrive() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(Prefetch(iter([interrupted])))


def test_none_is_a_value() -> None:
    assert list(Prefetch(iter([partial(value, None)] * 3))) == [None] * 3


def test_the_end_ends_threads() -> None:
    found = Prefetch(numbers(10), depth=4, threads=3)
    assert list(found) == list(range(10))
    assert not workers() and not found.alive
    assert list(found) == []


@pytest.mark.parametrize("threads", [1, 4])
def test_close(threads: int) -> None:
    found = Prefetch(numbers(1000), depth=4, threads=threads)
    assert next(found) == 0
    assert found.alive and len(workers()) == threads
    started = time.monotonic()
    found.close()
    assert time.monotonic() - started < 5
    assert not workers() and not found.alive
    assert list(found) == []
    found.close()


def test_close_waits_for_the_job_that_runs() -> None:
    entered, go, ended = threading.Event(), threading.Event(), threading.Event()

    def held() -> None:
        entered.set()
        go.wait(10)
        ended.set()

    found = Prefetch(iter([held, held]), depth=2)
    assert entered.wait(10)
    threading.Timer(0.05, go.set).start()
    found.close()
    assert ended.is_set() and not workers()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_job_may_close_what_it_is_made_for(threads: int) -> None:
    made: list[Prefetch[int]] = []
    ready, closed = threading.Event(), threading.Event()

    def closes() -> int:
        ready.wait(10)
        made[0].close()
        closed.set()
        return 1

    made.append(Prefetch(iter([closes, *numbers(50)]), depth=5, threads=threads))
    ready.set()
    assert closed.wait(10)
    assert soon(lambda: not workers())
    assert list(made[0]) == []


def test_dropped_objects_end_their_threads() -> None:
    found = Prefetch(numbers(1000), depth=4, threads=3)
    assert next(found) == 0
    del found
    assert soon(lambda: not workers())


@pytest.mark.parametrize("threads", [1, 3])
def test_collected_in_one_of_its_own_threads(threads: int) -> None:
    """Garbage is collected wherever memory is allocated: also where a thread holds what the others wait for."""

    class Box:
        pass

    go, collected = threading.Event(), threading.Event()

    def jobs() -> Iterator[Callable[[], int]]:
        yield from numbers(3)
        go.wait(10)
        gc.collect()
        collected.set()
        while True:
            time.sleep(1e-3)
            yield partial(value, 0)

    gc.disable()
    try:
        box = Box()
        box.me, box.found = box, Prefetch(jobs(), depth=30, threads=threads)  # type: ignore[attr-defined]
        assert len(workers()) == threads
        del box
        go.set()
        assert collected.wait(10)
        assert soon(lambda: not workers())
    finally:
        gc.enable()


def test_a_stalled_job_is_told() -> None:
    go, waited = threading.Event(), []

    def told(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            go.set()

    def slow() -> int:
        go.wait(10)
        return 7

    found = Prefetch(iter([partial(value, 1), slow]), depth=2, patience=0.01, stalled=told)
    assert next(found) == 1
    assert next(found) == 7
    assert waited[:3] == pytest.approx([0.01, 0.02, 0.03])


def test_patience_without_anyone_to_tell() -> None:
    def slow() -> int:
        time.sleep(0.03)
        return 7

    assert list(Prefetch(iter([slow]), patience=0.005)) == [7]


def test_an_error_of_who_is_told() -> None:
    go = threading.Event()

    def told(seconds: float) -> None:
        go.set()
        raise RuntimeError("told")

    found = Prefetch(iter([partial(go.wait, 10), partial(value, 2)]), patience=0.01, stalled=told)
    with pytest.raises(RuntimeError, match="told"):
        next(found)
    assert list(found) == [True, 2]  # nothing was lost


@pytest.mark.parametrize("numbers_", [{"depth": 0}, {"threads": 0}, {"depth": -1}])
def test_numbers_that_make_no_sense(numbers_: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Prefetch(iter([]), **numbers_)


SCRIPT = """
import time
from functools import partial
from dsbuild.load.prefetch import Prefetch
def job(n):
    time.sleep(0.02)
    return n
def endless():
    n = 0
    while True:
        yield partial(job, n)
        n += 1
found = Prefetch(endless(), depth=4, threads=3)
assert next(found) == 0
print("done", flush=True)
"""


@pytest.mark.parametrize("end", ["", "del found\n", "raise SystemExit(0)\n"])
def test_the_process_ends(end: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT + end], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
