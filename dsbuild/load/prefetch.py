"""Prefetch: the results of a sequence of calls, in order, made ahead by threads into a bounded number of places.

Garbage may be collected in any thread at any time, also in one of these while it holds a lock that the others want. So
an object that is dropped only tells its threads to end; waiting for them is for ``close`` and for the process's end.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Prefetch(Generic[T]):
    """An iterator over ``job()`` for each of ``jobs``, at most ``depth`` of them ahead of the caller.

    ``jobs`` is advanced by one thread at a time. An error of a job or of ``jobs`` is raised in its place, and nothing
    follows it. The threads end with ``close``, with the object, and with the process; they hold the jobs and never the
    object. ``stalled(seconds)`` is called while the caller waits for a result, about every ``patience`` seconds.
    """

    def __init__(
        self,
        jobs: Iterator[Callable[[], T]],
        *,
        depth: int = 2,
        threads: int = 1,
        patience: float = 60.0,
        stalled: Callable[[float], None] | None = None,
    ) -> None:
        if depth < 1 or threads < 1:
            raise ValueError(f"depth {depth} and threads {threads}: must be at least 1")
        self._board = board = _Board(jobs, depth)
        self._patience, self._stalled = patience, stalled
        self._workers = [
            threading.Thread(target=board.work, daemon=True, name="dsbuild-prefetch") for _ in range(threads)
        ]
        weakref.finalize(self, board.stop).atexit = False
        for worker in self._workers:
            # threads that are in native code while Python goes down would take the process with them: so they are ended
            weakref.finalize(worker, _end_one, board, weakref.ref(worker))
            worker.start()

    @property
    def alive(self) -> bool:
        """Whether this process has its threads: not after ``close``, and not in a fork."""
        return not self._board.stopped and self._board.process == os.getpid()

    def leave(self) -> None:
        """Tell the threads to end, and do not wait: they do at most one more job each."""
        self._board.stop()

    def close(self) -> None:
        """End the threads and wait for them: at most as long as one job takes. What was made ahead is forgotten."""
        _end(self._board, self._workers)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        waited = 0.0
        while (found := self._board.take(self._patience)) is None:
            waited += self._patience
            if self._stalled is not None:
                self._stalled(waited)
        if found.error is not None:
            self.close()
            raise found.error
        return cast(T, found.value)


class _Result(Generic[T]):
    """What a job came to."""

    __slots__ = ("error", "value")

    def __init__(self, value: T | None, error: BaseException | None) -> None:
        self.value, self.error = value, error


class _Board(Generic[T]):
    """What the threads and the caller share, under one lock."""

    def __init__(self, jobs: Iterator[Callable[[], T]], depth: int) -> None:
        self._jobs, self._depth = jobs, depth
        self._change = threading.Condition()
        self._order = threading.Lock()
        self._results: dict[int, _Result[T]] = {}
        self._given = self._taken = 0
        self.stopped = False
        self.process = os.getpid()

    def work(self) -> None:
        """A thread: the next job, and again, until there is none or it is told to stop."""
        while True:
            with self._change:
                self._change.wait_for(lambda: self.stopped or self._given < self._taken + self._depth)
                if self.stopped:
                    return
            with self._order:  # only one thread advances the jobs, so that numbers are in order
                if self.stopped or self._given >= self._taken + self._depth:
                    continue
                number, job = self._given, self._next()
                self._given += 1
            result = job if isinstance(job, _Result) else self._run(job)
            with self._change:
                self._results[number] = result
                self._change.notify_all()
            if isinstance(job, _Result):
                return

    def _next(self) -> Callable[[], T] | _Result[T]:
        try:
            return next(self._jobs)
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread; StopIteration is one too
            return _Result(None, error)

    def _run(self, job: Callable[[], T]) -> _Result[T]:
        try:
            return _Result(job(), None)
        except StopIteration as error:  # in the caller's thread it would look like the end
            wrong = RuntimeError("a job raised StopIteration")
            wrong.__cause__ = error
            return _Result(None, wrong)
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            return _Result(None, error)

    def take(self, timeout: float) -> _Result[T] | None:
        """The next result; None after ``timeout`` seconds without one."""
        with self._change:
            if not self._change.wait_for(lambda: self._taken in self._results or self.stopped, timeout):
                return None
            if self.stopped:
                return _Result(None, StopIteration())
            found = self._results.pop(self._taken)
            self._taken += 1
            self._change.notify_all()
            return found

    def stop(self) -> None:
        """Tell the threads to end, if they are of this process: a fork may have the lock as one of them held it."""
        if self.process == os.getpid():
            with self._change:
                self.stopped = True
                self._change.notify_all()


def _end(board: _Board[T], workers: Sequence[threading.Thread]) -> None:
    board.stop()
    if board.process == os.getpid() and threading.current_thread() not in workers:
        for worker in workers:
            if worker.is_alive():
                worker.join()


def _end_one(board: _Board[T], worker: weakref.ref[threading.Thread]) -> None:
    """At the process's end; or when ``worker`` is long gone."""
    found = worker()
    if found is not None:
        _end(board, [found])
