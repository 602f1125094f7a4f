"""PyTorch: a dataset's batches for ``DataLoader`` and torchdata's ``StatefulDataLoader``.

The number of workers changes no batch and no order: worker w of k makes steps w, w + k, …, and both loaders take their
workers in turn. Each iteration has a ``Loader`` of its own, made in the process that reads.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.errors import BuildError, CorruptError, DsbuildError, LockError, MachineError, NotFoundError, StorageError
from dsbuild.load.loader import Loader, read_state
from dsbuild.load.shape import RangeError
from dsbuild.load.steps import schedule_of
from dsbuild.order.partition import Schedule

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError:
    raise MachineError(
        "PyTorch: is not installed here", kind="missing-library", hint="pip install 'dsbuild[torch]'"
    ) from None

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

Tensors = dict[str, torch.Tensor]

FRESH = frozenset(("input_ids", "segment_ids", "position_ids", "cu_seqlens", "prefix_mask"))
"""Arrays that a batch has for itself, in one piece of memory."""

INTEGERS = ("uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""Names that torch and numpy share; the dataset refuses those that do not hold its ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The steps from ``start`` on, whose batch begins at ``position``: elsewhere than the sizes of the steps before it
    say, where those were others when the state was saved."""

    dataset: Dataset
    schedule: Schedule
    start: int
    position: int

    @property
    def end(self) -> int:
        """The step after the last whole batch, at least ``start``."""
        return max(self.schedule.steps(max(len(self.dataset) - self._shift, 0)), self.start)

    def state(self, step: int) -> dict[str, Any]:
        """The state of a ``Loader`` at ``step``. Raises ``RangeError`` before the start and after the end."""
        if not self.start <= step <= self.end:
            raise RangeError(f"step {step}: there are batches from {self.start} to {self.end}", kind="out-of-range")
        return {
            "dataset": self.dataset.digest.hex,
            "split": self.dataset.split,
            "step": step,
            "position": self.schedule.first(step) + self._shift,
        }

    def resumed(self, state: Mapping[str, Any]) -> Course:
        """From where ``state`` was saved on. Raises ``LockError`` if it is another dataset's, naming both."""
        step, position = read_state(self.dataset, state)
        return replace(self, start=step, position=position)

    @property
    def _shift(self) -> int:
        return self.position - self.schedule.first(self.start)


class TorchBatches(IterableDataset):  # type: ignore[misc]
    """Whole batches from step ``start`` to the end, for ``DataLoader(batches, batch_size=None, num_workers=k)``.

    A batch is a dict of new tensors [rows, L] in the memory that the loader filled: ``input_ids`` of ``dtype``,
    ``labels`` of ``label_dtype`` (int64 by default: ``cross_entropy`` takes no smaller one), the other columns as the
    dataset has them. ``size``, ``columns``, ``uneven``, ``prefetch``, ``threads``: as ``Loader`` says; workers make
    their batches when asked for them, as they are the prefetching themselves.

    ``rank`` and ``world`` are those of ``torch.distributed`` where it is initialised, else 0 and 1; give both where
    several ranks take the same rows (tensor or pipeline parallel). Every iteration begins at ``start`` again. Raises
    ``RangeError`` for numbers, columns and dtypes that the dataset does not have, and where a launcher's ranks would
    all silently read the same rows.
    """

    def __init__(
        self,
        dataset: Dataset,
        size: int | Schedule,
        *,
        start: int = 0,
        rank: int | None = None,
        world: int | None = None,
        dtype: torch.dtype = torch.int64,
        label_dtype: torch.dtype = torch.int64,
        columns: Sequence[str] | None = None,
        uneven: bool = False,
        prefetch: int = 2,
        threads: int = 1,
    ) -> None:
        super().__init__()
        if (rank is None) != (world is None):
            raise RangeError(f"rank {rank} of world {world}: give both or neither", kind="out-of-range")
        self.told = rank is not None
        self.rank, self.world = _place() if rank is None or world is None else (rank, world)
        self.label_dtype = _integer(label_dtype)
        if self.label_dtype not in ("int32", "int64"):
            raise RangeError(f"label_dtype {label_dtype}: does not hold ids and -100", kind="out-of-range")
        self.dataset, self.size = dataset, size
        self.options = {"dtype": _integer(dtype), "columns": columns, "uneven": uneven}
        self.ahead = {"prefetch": prefetch, "threads": threads}
        schedule = schedule_of(size)
        whole = Course(dataset=dataset, schedule=schedule, start=0, position=0)
        self.course = whole.resumed(whole.state(start))
        self.loader().close()  # what makes no sense is told here, not in a worker

    @property
    def start(self) -> int:
        """The first step."""
        return self.course.start

    def __len__(self) -> int:
        """Steps from ``start`` to the end."""
        return self.course.end - self.course.start

    def __iter__(self) -> TorchSteps:
        return TorchSteps(self)

    def state(self, step: int) -> dict[str, Any]:
        """What to save so that training goes on at ``step``, with any number of workers and ranks: under 200 bytes.

        It is ``Loader``'s state, and the same on every rank. Raises ``RangeError`` for a step that there is not.
        """
        return self.course.state(step)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Start where ``state`` was saved. Raises ``LockError`` for the state of another dataset, naming both."""
        self.course = self.course.resumed(state)

    def loader(self, every: int = 1) -> Loader:
        """A loader of this rank, at step 0; in a worker without threads."""
        ahead = self.ahead if get_worker_info() is None else {"prefetch": 0}
        return self.dataset.loader(self.size, self.rank, self.world, every=every, **self.options, **ahead)

    def tensors(self, arrays: Mapping[str, Any]) -> Tensors:
        """The arrays of one batch as tensors, sharing memory where the dtype is right and the memory not read-only."""
        found = {}
        for name, array in arrays.items():
            if name == "labels":  # numpy converts: torch's threads cost more than such a small array
                array = array.astype(self.label_dtype, copy=False)
            elif name not in FRESH or not array.flags.writeable:
                array = np.require(array, requirements=("C", "W"))
            found[name] = torch.from_numpy(array)
        return found

    def check_world(self) -> None:
        """Raise ``RangeError`` if ``torch.distributed`` was initialised after this was made, with other numbers."""
        distributed = torch.distributed
        if self.told or not (distributed.is_available() and distributed.is_initialized()):
            return
        if (distributed.get_rank(), distributed.get_world_size()) != (self.rank, self.world):
            raise RangeError(
                f"batches of rank {self.rank} of {self.world}: torch.distributed now has rank "
                f"{distributed.get_rank()} of {distributed.get_world_size()}",
                kind="out-of-range",
                hint="make the batches after init_process_group, or give rank and world",
            )


class TorchSteps(Iterator[Tensors]):
    """One iteration of ``TorchBatches`` in one process; ``StatefulDataLoader`` saves and loads the state of each.

    A round is the steps that all k workers make in turn: r, r + 1, … r + k - 1. A worker's state names its round by r,
    so it has the form of every other state.
    """

    def __init__(self, batches: TorchBatches) -> None:
        worker = get_worker_info()
        self._number: int = 0 if worker is None else worker.id
        self._workers: int = 1 if worker is None else worker.num_workers
        self._worker = worker is not None
        with _telling():
            batches.check_world()
            self._batches, self._loader = batches, batches.loader(self._workers)
        self._go(batches.course)

    @property
    def step(self) -> int:
        """The next step that this process makes."""
        return self._step

    def __next__(self) -> Tensors:
        if self._step >= self._end:
            self._loader.close()
            raise StopIteration
        try:
            arrays = next(self._loader)
        except DsbuildError:
            with _telling():
                raise
        self._step += self._workers
        tensors = self._batches.tensors(arrays)
        return _Parcel(tensors) if self._worker else tensors

    def state_dict(self) -> dict[str, Any]:
        """The round of this worker's next step, as the state of its first step: under 200 bytes as JSON."""
        return self._course.state(min(self._step - self._number, self._end))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to this worker's step of the round of ``state``. Raises ``LockError`` if it is another dataset's."""
        with _telling():
            self._go(self._course.resumed(state))

    def _go(self, course: Course) -> None:
        self._course, self._step, self._end = course, course.start + self._number, course.end
        self._loader.load_state_dict(course.state(min(self._step, course.end)))


class _Parcel(dict[str, torch.Tensor]):
    """A worker's batch, which is sent as numpy arrays and arrives as a plain dict of tensors.

    Torch would send each tensor as a file of shared memory: about 0.5 ms each, three times the cost of a pipe for
    batches of 128 KiB and still more than twice for 2 MiB.
    """

    def __copy__(self) -> _Parcel:  # what torch's own collation of a mapping begins with
        return _Parcel(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, ({name: tensor.numpy() for name, tensor in self.items()},)


def _arrived(arrays: Mapping[str, np.ndarray]) -> Tensors:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def to_device(batches: Iterable[Tensors], device: Any, depth: int = 2) -> Iterator[Tensors]:
    """The batches on ``device``; on CUDA up to ``depth`` are copied ahead, on a stream of their own, while one is used.

    Safe because the current stream waits for a batch's copy before the batch is handed out, and the allocator is told
    that this stream uses the memory. An error of ``batches`` comes in its place. On other devices batches are moved one
    by one. What ``batches`` itself says of its state is up to ``depth`` ahead: save ``TorchBatches.state(step)``.
    """
    target = torch.device(device)
    if target.type != "cuda":
        return ({n: t.to(target) for n, t in batch.items()} for batch in batches)
    return _streamed(batches, target, depth)


def _streamed(batches: Iterable[Tensors], device: torch.device, depth: int) -> Iterator[Tensors]:
    side = torch.cuda.Stream(device)
    waiting: deque[tuple[Tensors, torch.cuda.Event]] = deque()
    failed: Exception | None = None
    source = iter(batches)
    while True:
        while failed is None and len(waiting) <= depth:
            try:
                waiting.append(_copied(next(source), device, side))
            except Exception as error:  # noqa: BLE001 - it is raised in its place; StopIteration ends
                failed = error
        if not waiting:
            assert failed is not None
            if isinstance(failed, StopIteration):
                return
            raise failed
        batch, done = waiting.popleft()
        current = torch.cuda.current_stream(device)
        current.wait_event(done)
        for tensor in batch.values():
            tensor.record_stream(current)
        yield batch


def _copied(batch: Tensors, device: torch.device, side: torch.cuda.Stream) -> tuple[Tensors, torch.cuda.Event]:
    """Start the copy of ``batch``; pageable memory is pinned first, or the copy would wait for the host."""
    with torch.cuda.stream(side):
        pinned = {n: t if t.device.type != "cpu" or t.is_pinned() else t.pin_memory() for n, t in batch.items()}
        moved = {n: t.to(device, non_blocking=True) for n, t in pinned.items()}
        return moved, side.record_event()


def _place() -> tuple[int, int]:
    """(rank, world) of ``torch.distributed``, or (0, 1). Raises ``RangeError`` where a launcher says otherwise."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    said = os.environ.get("WORLD_SIZE", "1")
    if said != "1":
        raise RangeError(
            f"WORLD_SIZE is {said}, but torch.distributed is not initialised: every rank would read the same rows",
            kind="out-of-range",
            hint="call torch.distributed.init_process_group first, or give rank and world",
        )
    return 0, 1


def _integer(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in INTEGERS:
        raise RangeError(f"dtype {dtype}: must be one of {', '.join(INTEGERS)}", kind="out-of-range")
    return name


class WorkerError(DsbuildError):
    """What a loader raises in the caller for an error in a worker: it calls the class with the worker's traceback.

    So the class has to read kind and hint from that text, into which the worker wrote them.
    """

    def __init__(self, message: str = "", **known: Any) -> None:
        for name in ("kind", "hint"):
            found = re.findall(rf"^{name}: (.*)$", message, re.MULTILINE)
            if found and not known.get("diagnostics"):
                known.setdefault(name, found[-1])
        super().__init__(message, **known)


class BuildWorkerError(WorkerError, BuildError):
    """``BuildError`` of a worker."""


class CorruptWorkerError(WorkerError, CorruptError):
    """``CorruptError`` of a worker."""


class LockWorkerError(WorkerError, LockError):
    """``LockError`` of a worker."""


class MachineWorkerError(WorkerError, MachineError):
    """``MachineError`` of a worker."""


class NotFoundWorkerError(WorkerError, NotFoundError):
    """``NotFoundError`` of a worker."""


class RangeWorkerError(WorkerError, RangeError):
    """``RangeError`` of a worker."""


class StorageWorkerError(WorkerError, StorageError):
    """``StorageError`` of a worker."""


WORKER_ERRORS: tuple[type[WorkerError], ...] = (
    BuildWorkerError,
    CorruptWorkerError,
    LockWorkerError,
    MachineWorkerError,
    NotFoundWorkerError,
    RangeWorkerError,
    StorageWorkerError,
)


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """In a worker, make of a ``DsbuildError`` one of the same class that keeps kind and hint on its way."""
    try:
        yield
    except DsbuildError as error:
        if get_worker_info() is None or isinstance(error, WorkerError):
            raise
        cls = next((c for c in WORKER_ERRORS if type(error) in c.__bases__), WorkerError)
        told = cls(diagnostics=error.diagnostics)
        told.add_note(f"kind: {error.kind}")  # the hint is a note already
        raise told.with_traceback(error.__traceback__) from None
