"""JAX: batches as global arrays under a sharding, where each process reads only the rows that its own devices hold.

Safe on any number of processes and in threads: nothing here communicates. Rows follow from the step by arithmetic, and
each device is handed its own piece of them, so processes need not agree on anything but the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.errors import MachineError
from dsbuild.load.loader import PATIENCE, read_state, stalled
from dsbuild.load.prefetch import Prefetch
from dsbuild.load.shape import RangeError
from dsbuild.load.steps import schedule_of
from dsbuild.order.partition import Schedule

try:
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
except ImportError:
    raise MachineError(
        "JAX: is not installed here", kind="missing-library", hint="pip install 'dsbuild[jax]'"
    ) from None

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

GlobalBatch = dict[str, jax.Array]
Run = tuple[int, dict[str, np.ndarray]]
"""Neighbouring rows of a batch: the number of the first, and their columns."""


class JaxBatches:
    """An iterator over global batches: dicts of ``jax.Array`` [size, L] under ``sharding``, step by step to the end.

    Step ``step`` is the positions [step * size, (step + 1) * size) of the dataset, whatever the mesh and the number of
    processes; ``size`` may be a ``Schedule``. ``sharding`` is a ``NamedSharding`` (or ``SingleDeviceSharding``); its
    spec is cut to a column's rank, so ``P("data", "seq")`` puts a column [size] under ``P("data")``. A mapping
    {column: sharding} gives each column its own, and names the columns that are wanted.

    All processes of the mesh make the same calls. ``prefetch`` batches are read ahead by ``threads`` threads (0 =
    none); with ``device_prefetch`` they are also put on the devices ahead, else in ``next``. Errors of a thread reach
    the caller in place of their batch. ``dtype`` and ``columns``: as ``Dataset.batch``. Raises ``RangeError`` if the
    sharding does not divide a size, and for a column whose dtype JAX would silently narrow. Not to be shared by
    threads.
    """

    def __init__(
        self,
        dataset: Dataset,
        size: int | Schedule,
        sharding: Any,
        *,
        start: int = 0,
        prefetch: int = 2,
        threads: int = 1,
        device_prefetch: bool = False,
        dtype: Any = np.int32,
        columns: Sequence[str] | None = None,
    ) -> None:
        if prefetch < 0 or threads < 1:
            raise RangeError(f"prefetch {prefetch}, threads {threads}: at least 0 and 1", kind="out-of-range")
        self.dataset, self.schedule = dataset, schedule_of(size)
        self._rows = _Rows.of(dataset, self.schedule.sizes, sharding, dtype, columns)
        self._depth, self._threads, self._whole = prefetch, threads, device_prefetch
        self._ahead: Prefetch[Any] | None = None
        self.seek(start)

    @property
    def step(self) -> int:
        """The step of the next batch."""
        return self._step

    @property
    def position(self) -> int:
        """The first example of the next batch: how many examples of the stream came before it."""
        return self._position

    def __iter__(self) -> Iterator[GlobalBatch]:
        return self

    def __next__(self) -> GlobalBatch:
        size = self.schedule.size(self._step)
        if self._position + size > len(self.dataset):
            self.close()
            raise StopIteration
        found = self._take(size) if self._depth else self._rows.make(self._position, size)
        self._step += 1
        self._position += size
        return found

    def batch(self, step: int) -> GlobalBatch:
        """The global batch of any ``step``, read now; the iterator stays where it is. Raises ``RangeError``."""
        start, stop = self.dataset.share(step, self.schedule)
        return self._rows.make(start, stop - start)

    def seek(self, step: int) -> None:
        """Go to ``step``: O(1). Raises ``RangeError`` below 0; past the end there is no batch."""
        if step < 0:
            raise RangeError(f"step {step}: must be at least 0", kind="out-of-range")
        self.close()
        self._step, self._position = step, self.schedule.first(step)

    def state_dict(self) -> dict[str, Any]:
        """Dataset, mixture, step and position in examples, as of a ``Loader``: equal on every process."""
        return {
            "dataset": self.dataset.digest.hex,
            "split": self.dataset.split,
            "step": self._step,
            "position": self._position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, whatever the mesh, the processes and the batch sizes were then.

        Raises ``LockError`` if it is another dataset's or no state at all.
        """
        step, position = read_state(self.dataset, state)
        self.close()
        self._step, self._position = step, position

    def close(self) -> None:
        """End the threads, if there are any; the iterator can be used again."""
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = None

    def __enter__(self) -> JaxBatches:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _take(self, size: int) -> GlobalBatch:
        if self._ahead is None or not self._ahead.alive:
            make = self._rows.make if self._whole else self._rows.read
            jobs = _jobs(make, len(self.dataset), self.schedule, self._step, self._position)
            slow = partial(stalled, self.dataset, self._step)
            self._ahead = Prefetch(jobs, depth=self._depth, threads=self._threads, patience=PATIENCE, stalled=slow)
        try:
            found = next(self._ahead)
        except BaseException:
            self.close()
            raise
        return found if self._whole else self._rows.place(size, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One array of a batch: its name, the shape of one example, its dtype and its sharding, cut to its rank."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sharding: NamedSharding | SingleDeviceSharding

    def indices(self, size: int) -> Mapping[Any, tuple[slice, ...]]:
        """The piece of the global array that each of this process's devices holds."""
        found: Any = self.sharding.addressable_devices_indices_map((size, *self.shape))
        return dict(found)

    def check_dtype(self) -> None:
        """Raise ``RangeError`` if JAX, as it is set in this thread, would narrow the numbers."""
        narrowed = jax.dtypes.canonicalize_dtype(self.dtype)
        if narrowed != self.dtype:
            raise RangeError(
                f"column {self.name}: {self.dtype}, which JAX would narrow to {narrowed} without a word",
                kind="out-of-range",
                hint="jax.config.update('jax_enable_x64', True), another dtype, or columns=[…] without this one",
            )

    def check_size(self, size: int) -> None:
        """Raise ``RangeError`` if the sharding does not divide the global array of ``size`` rows."""
        for axis, length in enumerate((size, *self.shape)):
            names, ways = _split(self.sharding, axis)
            if length % ways:
                what = f"batch size {size}" if axis == 0 else f"column {self.name}: axis {axis} of length {length}"
                raise RangeError(
                    f"{what}: the sharding splits it {ways} ways (mesh axes {', '.join(names)}), which is not even",
                    kind="out-of-range",
                    hint=f"take a multiple of {ways}, such as {-(-length // ways) * ways}, or a smaller mesh axis"
                    if axis == 0
                    else "leave the axis out of the PartitionSpec, or give this column its own: {column: sharding}",
                )

    def place(self, size: int, runs: Sequence[Run]) -> jax.Array:
        """The global array of ``size`` rows from the ``runs`` that this process has read.

        By ``make_array_from_callback``, which asks for each device's piece by its place in the global array, so it is
        right for every sharding. ``make_array_from_process_local_data`` wants the process's rows in one block, for
        which rows that are no neighbours must be copied together, and all rows where its devices form no grid; and
        ``make_array_from_single_device_arrays`` takes five times as long, a device at a time.
        """
        self.check_dtype()

        def piece(index: tuple[slice, ...] | None) -> np.ndarray:
            assert index is not None
            start, stop, _ = index[0].indices(size)
            first, arrays = next(run for run in reversed(runs) if run[0] <= start)
            return arrays[self.name][start - first : stop - first][(slice(None), *index[1:])]

        shape = (size, *self.shape)
        if not self.sharding.addressable_devices:  # a mesh of other processes' devices
            return jax.make_array_from_single_device_arrays(shape, self.sharding, [], dtype=self.dtype)
        # the host's rows are fresh for every batch, so an array that is the same memory (on CPU) never changes
        return jax.make_array_from_callback(shape, self.sharding, piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What this process reads of a batch, and where it goes. Holds no iterator, so that threads keep none alive."""

    dataset: Dataset
    columns: tuple[_Column, ...]
    dtype: Any

    @classmethod
    def of(
        cls, dataset: Dataset, sizes: Iterable[int], sharding: Any, dtype: Any, columns: Sequence[str] | None
    ) -> _Rows:
        """Look at the columns of one example, and check them against the sharding for all ``sizes``."""
        if columns is None and isinstance(sharding, Mapping):
            columns = tuple(sharding)
        example = dataset.examples(0, 1, dtype=dtype, columns=columns)
        ragged = [n for n, a in example.items() if a.shape[:1] != (1,)]
        if ragged:
            raise RangeError(
                f"column {ragged[0]}: has not one row an example, so it can't be sharded by examples",
                kind="out-of-range",
                hint="make it from segment_ids in the step",
            )
        found = tuple(
            _Column(name=n, shape=a.shape[1:], dtype=a.dtype, sharding=_cut(_named(sharding, n), a.ndim))
            for n, a in example.items()
        )
        for column in found:
            column.check_dtype()
            for size in sizes:
                column.check_size(size)
        return cls(dataset=dataset, columns=found, dtype=dtype)

    def runs(self, size: int) -> list[tuple[int, int]]:
        """[start, stop) of the rows of a batch that this process needs, each row once, neighbours together."""
        found: list[tuple[int, int]] = []
        pieces = (i[0].indices(size)[:2] for c in self.columns for i in c.indices(size).values())
        for start, stop in sorted(set(pieces)):
            if found and start <= found[-1][1]:
                found[-1] = found[-1][0], max(stop, found[-1][1])
            else:
                found.append((start, stop))
        return found

    def read(self, position: int, size: int) -> list[Run]:
        """This process's rows of the batch of ``size`` examples from ``position`` on, in the host's memory."""
        names = [c.name for c in self.columns]
        return [
            (start, self.dataset.examples(position + start, position + stop, dtype=self.dtype, columns=names))
            for start, stop in self.runs(size)
        ]

    def place(self, size: int, runs: Sequence[Run]) -> GlobalBatch:
        """The global batch from what ``read`` gave."""
        return {c.name: c.place(size, runs) for c in self.columns}

    def make(self, position: int, size: int) -> GlobalBatch:
        """Read and place."""
        return self.place(size, self.read(position, size))


def _jobs(
    make: Callable[[int, int], Any], length: int, schedule: Schedule, step: int, position: int
) -> Iterator[Callable[[], Any]]:
    """A call for each batch from ``step`` on, which begins at ``position``."""
    while position + (size := schedule.size(step)) <= length:
        yield partial(make, position, size)
        step, position = step + 1, position + size


def _named(sharding: Any, column: str) -> NamedSharding | SingleDeviceSharding:
    """The sharding that is meant for ``column``. Raises ``RangeError`` for what places no array."""
    found = sharding.get(column) if isinstance(sharding, Mapping) else sharding
    if isinstance(found, SingleDeviceSharding) or (isinstance(found, NamedSharding) and isinstance(found.mesh, Mesh)):
        return found
    raise RangeError(
        f"column {column}: its sharding is {found!r}, which places no array",
        kind="bad-type",
        hint="give jax.sharding.NamedSharding(mesh, PartitionSpec('data')) over a mesh of devices",
    )


def _cut(sharding: NamedSharding | SingleDeviceSharding, rank: int) -> NamedSharding | SingleDeviceSharding:
    """``sharding`` for an array of ``rank`` axes: the same object where its spec is not longer."""
    if isinstance(sharding, SingleDeviceSharding) or len(sharding.spec) <= rank:
        return sharding
    spec: Any = PartitionSpec
    return NamedSharding(sharding.mesh, spec(*list(sharding.spec)[:rank]), memory_kind=sharding.memory_kind)


def _split(sharding: NamedSharding | SingleDeviceSharding, axis: int) -> tuple[tuple[str, ...], int]:
    """The mesh axes over which ``axis`` of an array is split, and into how many pieces."""
    if isinstance(sharding, SingleDeviceSharding) or axis >= len(sharding.spec) or sharding.spec[axis] is None:
        return (), 1
    entry: Any = sharding.spec[axis]
    names = (entry,) if isinstance(entry, str) else entry
    if not isinstance(names, tuple):
        raise RangeError(f"PartitionSpec entry {entry!r}: must be names of mesh axes, or None", kind="bad-type")
    return names, math.prod(sharding.mesh.shape[n] for n in names)
