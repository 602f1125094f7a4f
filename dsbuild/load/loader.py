"""Loader: batches of a dataset in order, made ahead by threads; its state is a position."""

from __future__ import annotations

import operator
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.errors import DsbuildError, LockError
from dsbuild.load.gather import Batch, gather
from dsbuild.load.prefetch import Prefetch
from dsbuild.load.shape import RangeError
from dsbuild.load.steps import schedule_of, share, whole
from dsbuild.load.stretch import Stretch
from dsbuild.order.partition import Schedule

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

ROWS = 8192
"""Rows that are looked up at once, at most; more where there are many sources."""

MOST_ROWS = 1 << 16

FEW_PARTS = 2048
"""So many parts may be open beside those that are kept: the kernel allows a process 65,530 maps."""

AHEAD = 8
"""Batches ahead of which the kernel is told, where reading is slow."""

SLOW = 200e-6
"""Seconds a row that are slow."""

PATIENCE = 60.0
"""Seconds without a batch after which a warning says so."""

Job = Callable[[], Batch]


class Loader:
    """An iterator over a rank's share of batches to the end of the dataset; a last partial batch is left out.

    ``size``: examples of a batch over all ranks, or a ``Schedule`` of sizes by step. ``start``: the first step;
    ``every``: go on by so many steps, for workers that take steps in turn.
    ``prefetch``: batches made ahead by ``threads`` threads (0 = none, made when asked for). ``reuse``: give the same
    arrays again, so that a batch is valid until ``prefetch + 1`` more were taken. ``uneven``: let ranks' shares differ
    by one example where the world does not divide the size. ``dtype`` and ``columns``: as ``Dataset.batch``. Errors of
    threads are raised in their place. Not to be shared by threads.
    """

    def __init__(
        self,
        dataset: Dataset,
        size: int | Schedule,
        rank: int = 0,
        world: int = 1,
        *,
        start: int = 0,
        every: int = 1,
        prefetch: int = 2,
        threads: int = 1,
        reuse: bool = False,
        uneven: bool = False,
        dtype: Any = np.int32,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.dataset, self.rank, self.world, self.uneven = dataset, rank, world, uneven
        self.schedule = schedule_of(size)
        # numbers that make no sense are told here, not in a thread
        self.shares = {size: share(0, size, rank, world, uneven=uneven) for size in set(self.schedule.sizes)}
        self._columns, self._dtype = dataset.shape.chosen(columns), dataset.dtype(dtype)
        self.every = whole(every, "every", least=1)
        self._depth, self._threads = whole(prefetch, "prefetch"), whole(threads, "threads", least=1)
        self._reuse = reuse
        self._size, self._length = self.schedule.sizes[0] if len(self.schedule.sizes) == 1 else 0, len(dataset)
        self._buffers: deque[Batch] = deque(maxlen=self._depth + 2)
        self._ahead: Prefetch[Batch] | None = None
        self._made: Iterator[Batch] | None = None
        self.seek(start)

    @property
    def step(self) -> int:
        """The step of the next batch."""
        return self._step

    @property
    def position(self) -> int:
        """The first example of the next batch: how many examples of the stream came before it."""
        return self._position

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        size = self._size or self.schedule.size(self._step)
        if self._position + size > self._length:
            self.close()
            raise StopIteration
        found = self._take()
        self._position += size if self.every == 1 else _span(self.schedule, self._step, self.every)
        self._step += self.every
        return self._kept(found) if self._reuse else found

    def seek(self, step: int) -> None:
        """Go to ``step``: O(1). Raises ``RangeError`` beyond the end, where a run would seem to be finished."""
        step, end = whole(step, "step"), self.schedule.steps(self._length)
        if step > end:
            raise RangeError(f"step {step}: the dataset has {end} whole batches", kind="out-of-range")
        self._leave()
        self._step, self._position = step, self.schedule.first(step)

    def state_dict(self) -> dict[str, Any]:
        """Dataset, mixture, step and position in examples: under 200 bytes as JSON. Any world size may load it."""
        return {
            "dataset": self.dataset.digest.hex,
            "split": self.dataset.split,
            "step": int(self._step),
            "position": int(self._position),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, whatever the world, the batch size or its schedule was then.

        Raises ``LockError`` if it is another dataset's or no state at all.
        """
        step, position = read_state(self.dataset, state)
        self._leave()
        self._step, self._position = step, position

    def close(self) -> None:
        """Stop the threads, if there are any; the loader can be used again."""
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = self._made = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _take(self) -> Batch:
        if self._ahead is not None and not self._ahead.alive:
            self._ahead = self._made = None  # ended by an error, or the threads of another process
        if self._made is None:
            self._made = self._make()
        try:
            return next(self._made)
        except BaseException:
            self.close()
            raise

    def _make(self) -> Iterator[Batch]:
        shares = _shares(self.schedule, self.every, self._step, self._position, self.shares, self._length)
        jobs = _jobs(self.dataset, shares, self._dtype, self._columns)
        if not self._depth:
            return map(operator.call, jobs)
        slow = partial(stalled, self.dataset, self._step)
        self._ahead = Prefetch(jobs, depth=self._depth, threads=self._threads, patience=PATIENCE, stalled=slow)
        return self._ahead

    def _leave(self) -> None:
        """Forget what was made ahead; threads end on their own."""
        if self._ahead is not None:
            self._ahead.leave()
        self._ahead = self._made = None

    def _kept(self, found: Batch) -> Batch:
        """``found`` in arrays of an earlier batch, where shapes allow it."""
        if len(self._buffers) == self._buffers.maxlen:
            kept = self._buffers.popleft()
            for name, array in found.items():
                if kept[name].shape == array.shape:
                    np.copyto(kept[name], array)
                    found[name] = kept[name]
        self._buffers.append(dict(found))  # the caller may change the dict that it gets
        return found


def read_state(dataset: Dataset, state: Mapping[str, Any]) -> tuple[int, int]:
    """(step, position) of a state of ``dataset``. Raises ``LockError`` for another one's, and for no state."""
    if not isinstance(state, Mapping) or "dataset" not in state:
        raise LockError(f"{state!r} is no state of a loader", kind="lock-mismatch", hint="give what state_dict() gave")
    if state.get("dataset") != dataset.digest.hex or state.get("split") != dataset.split:
        raise LockError(
            f"this state is of {state.get('dataset')}/{state.get('split')}, "
            f"not of {dataset.digest.hex}/{dataset.split}",
            kind="lock-mismatch",
            hint="open the dataset that the state names, or go to its position in this one with seek()",
        )
    step, position = state.get("step"), state.get("position")
    for name, value in (("step", step), ("position", position)):
        if type(value) is not int or value < 0:
            raise LockError(f"this state's {name} is {value!r}, not a count", kind="lock-mismatch")
    assert isinstance(step, int) and isinstance(position, int)
    if position > len(dataset):
        raise LockError(
            f"this state's position is {position:,}, but the dataset ends at {len(dataset):,}", kind="lock-mismatch"
        )
    return step, position


def _span(schedule: Schedule, step: int, every: int) -> int:
    """How many positions the ``every`` batches from ``step`` on have."""
    return schedule.first(step + every) - schedule.first(step)


def _shares(
    schedule: Schedule, every: int, step: int, position: int, shares: Mapping[int, tuple[int, int]], length: int
) -> Iterator[tuple[int, int]]:
    """A rank's share of each batch from ``step`` on, which begins at ``position``; ``shares``: by size, of one at 0."""
    steady = len(schedule.sizes) == 1
    size = schedule.size(step)
    while position + size <= length:
        low, high = shares[size]
        yield position + low, position + high
        if steady:
            position += size * every
            continue
        position += _span(schedule, step, every)
        step += every
        size = schedule.size(step)


@dataclass(slots=True)
class _Pace:
    """``row``: how many seconds a row took to read in the last batch: memory takes microseconds, a disk much longer.

    ``unproved``: whether the stretch that is read has values that were not verified yet.
    """

    row: float = 0.0
    unproved: bool = True

    @property
    def slow(self) -> bool:
        return self.row > SLOW


def _jobs(
    dataset: Dataset, ranges: Iterator[tuple[int, int]], dtype: np.dtype[Any], columns: tuple[str, ...]
) -> Iterator[Job]:
    """A call for each batch. Positions are looked up many batches at once, few at first so that the first one is soon.

    Where values were not verified yet, or come slowly, the kernel is told of them some batches ahead. Holds no loader,
    so that a loader that is dropped ends its threads.
    """
    most = min(MOST_ROWS, max(ROWS, 64 * len(dataset.sources)))
    if sum(len(source.records) for source in dataset.sources) > FEW_PARTS:
        most = FEW_PARTS  # each row may be of another part, which a stretch holds open
    wanted, pace = 1, _Pace()
    while True:
        chosen: list[tuple[int, int]] = []
        rows = 0
        for start, stop in ranges:
            chosen.append((start, stop))
            rows += max(stop - start, 1)  # a share may be empty
            if rows >= wanted:
                break
        if not chosen:
            return
        stretch: Stretch | None
        try:
            stretch = dataset.stretch(chosen, columns)
        except DsbuildError:
            stretch = None  # the error is of one batch: those before it are made
        at = told = 0
        pace.unproved = stretch is not None
        for number, (start, stop) in enumerate(chosen):
            if stretch is not None and (pace.unproved or pace.slow):
                upto = at + sum(high - low for low, high in chosen[number : number + AHEAD])
                told = _expect(stretch, max(told, at), upto, columns, pace)
            yield partial(_made, dataset, stretch, at, (start, stop), dtype, columns, pace)
            at += stop - start
        wanted = min(most, rows * 4)


def _expect(stretch: Stretch, start: int, stop: int, columns: tuple[str, ...], pace: _Pace) -> int:
    """Tell the kernel of rows [start, stop), if that is worth it; up to where it was told."""
    try:
        names = stretch.read_for(columns)
        pace.unproved = stretch.unproved(names)
        if pace.slow or pace.unproved:
            stretch.expect(start, stop, names)
            return stop
    except DsbuildError:
        pass  # the error is of the batch that reads these rows
    return start


def _made(
    dataset: Dataset,
    stretch: Stretch | None,
    at: int,
    positions: tuple[int, int],
    dtype: np.dtype[Any],
    columns: tuple[str, ...],
    pace: _Pace,
) -> Batch:
    """The batch of ``positions``, which are the rows of ``stretch`` from ``at`` on; None = look them up.

    What is wrong with other rows of the stretch, or with parts that only those need, is no error of this batch.
    """
    count = positions[1] - positions[0]
    if stretch is not None:
        try:
            begun = time.monotonic()
            found = gather(stretch, at, at + count, dtype, columns)
            pace.row = (time.monotonic() - begun) / max(count, 1)
            return found
        except DsbuildError:
            if count == len(stretch):
                raise
    return gather(dataset.stretch([positions], columns), 0, count, dtype, columns)


def stalled(dataset: Dataset, step: int, waited: float) -> None:
    """Warn that no batch came for ``waited`` seconds."""
    warnings.warn(
        f"no batch for {waited:.0f} s (reading on from step {step}): "
        f"the store at {dataset.store.root} is slow or stuck",
        RuntimeWarning,
        stacklevel=4,
    )
