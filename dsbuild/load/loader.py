"""Loader: batches in order, made ahead by one thread; its state is one integer.

Safe to resume on any number of ranks: the position counts examples of the whole batch, which the world does not change.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.errors import LockError

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

Batch = dict[str, np.ndarray]


class Loader:
    """An iterator over ``dataset.batch(step, …)`` for step, step + 1, … to the end.

    ``prefetch``: batches kept ready by a thread (0 = none). Errors of the thread reach the caller in their place.
    """

    def __init__(
        self,
        *,
        dataset: Dataset,
        size: int,
        rank: int = 0,
        world: int = 1,
        step: int = 0,
        prefetch: int = 2,
        options: Mapping[str, Any],
    ) -> None:
        dataset.share(0, size, rank, world)  # numbers that make no sense are told here, not in the thread
        self.dataset, self.size, self.rank, self.world, self.prefetch = dataset, size, rank, world, prefetch
        self._options = dict(options)
        self._step = step
        self._ready: queue.Queue[tuple[int, Batch | BaseException]] | None = None
        self._end: weakref.finalize[[threading.Thread, Any, threading.Event], Loader] | None = None

    @property
    def step(self) -> int:
        """The step of the next batch."""
        return self._step

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._step >= self.dataset.steps(self.size):
            self.close()
            raise StopIteration
        found = self._make(self._step) if self.prefetch <= 0 else self._take()
        self._step += 1
        return found

    def seek(self, step: int) -> None:
        """Go to ``step``: O(1)."""
        self.close()
        self._step = step

    def state_dict(self) -> dict[str, Any]:
        """Dataset, mixture and position in examples: under 200 bytes as JSON."""
        return {"dataset": self.dataset.digest.hex, "split": self.dataset.split, "position": self._step * self.size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the position of ``state``. Raises ``LockError`` if it is another dataset's or between two batches."""
        if state.get("dataset") != self.dataset.digest.hex or state.get("split") != self.dataset.split:
            raise LockError(
                f"this state is of {state.get('dataset')}/{state.get('split')}, "
                f"not of {self.dataset.digest.hex}/{self.dataset.split}",
                kind="lock-mismatch",
                hint="open the dataset that the state names, or start at a step of your choice with seek()",
            )
        position = state.get("position")
        if not isinstance(position, int) or position < 0 or position % self.size:
            raise LockError(
                f"position {position!r} is not a whole number of batches of {self.size}",
                kind="lock-mismatch",
                hint="resume with a batch size that divides the position",
            )
        self.seek(position // self.size)

    def close(self) -> None:
        """Stop the thread, if there is one; the loader can be used again."""
        if self._end is not None:
            self._end()
        self._ready = self._end = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _make(self, step: int) -> Batch:
        return self.dataset.batch(step, self.size, self.rank, self.world, **self._options)

    def _take(self) -> Batch:
        if self._ready is None:
            self._ready, stop = queue.Queue(self.prefetch), threading.Event()
            make = partial(self.dataset.batch, size=self.size, rank=self.rank, world=self.world, **self._options)
            steps = range(self._step, self.dataset.steps(self.size))
            thread = threading.Thread(target=_work, args=(make, steps, self._ready, stop), daemon=True)
            # a loader that is dropped ends its thread, and so does the end of the process: a thread that is in native
            # code while Python goes down would take the process with it
            self._end = weakref.finalize(self, _finish, thread, self._ready, stop)
            thread.start()
        step, value = self._ready.get()
        assert step == self._step
        if isinstance(value, BaseException):
            self.close()
            raise value
        return value


def _work(
    make: Callable[[int], Batch],
    steps: range,
    ready: queue.Queue[tuple[int, Batch | BaseException]],
    stop: threading.Event,
) -> None:
    """The thread: batches, or the error in their place, into the queue, until told to stop. Holds no loader."""
    for step in steps:
        value: Batch | BaseException
        try:
            value = make(step)
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            value = error
        while not stop.is_set():
            try:
                ready.put((step, value), timeout=0.1)
                break
            except queue.Full:
                continue
        if stop.is_set():
            return


def _finish(thread: threading.Thread, ready: queue.Queue[Any], stop: threading.Event) -> None:
    """End the thread and wait for it: at most as long as one batch takes."""
    stop.set()
    while thread.is_alive():
        with contextlib.suppress(queue.Empty):
            ready.get_nowait()
        thread.join(0.01)
