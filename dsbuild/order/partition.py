"""Partition: which stream positions a step has, and which a rank takes; so the world's size changes no order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def steps(length: int, size: int) -> int:
    """Number of whole batches of ``size`` in ``length`` positions; a last partial batch is dropped."""
    _check(0, size, 0, 1)
    return length // size


def positions(step: int, size: int, rank: int = 0, world: int = 1) -> tuple[int, int]:
    """[start, stop) of the positions that ``rank`` of ``world`` takes of batch ``step`` of ``size`` examples.

    Raises ``ValueError`` for numbers out of range and where ``world`` does not divide ``size``.
    """
    if world >= 1 and size % world:
        raise ValueError(f"batch size {size} over world {world}: must be a multiple; or use uneven_positions")
    return uneven_positions(step, size, rank, world)


def uneven_positions(step: int, size: int, rank: int, world: int) -> tuple[int, int]:
    """As ``positions`` for any world: rank r takes [r B / R, (r + 1) B / R) of the batch, rounded down.

    So ranks' shares differ by at most one example, and are empty for some where ``world`` exceeds ``size``.
    """
    _check(step, size, rank, world)
    start = step * size
    return start + rank * size // world, start + (rank + 1) * size // world


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Batch sizes that change: from step ``starts[i]`` on, batches have ``sizes[i]`` examples.

    Raises ``ValueError`` unless ``starts`` begins at 0 and ascends, and all sizes are at least 1.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.starts) != len(self.sizes) or self.starts[:1] != (0,) or min(self.sizes) < 1:
            raise ValueError(
                f"steps {self.starts} with sizes {self.sizes}: must start at step 0, with sizes of at least 1"
            )
        if any(low >= high for low, high in pairwise(self.starts)):
            raise ValueError(f"steps {self.starts}: must ascend")

    def size(self, step: int) -> int:
        """Examples in the batch of ``step``."""
        return self.sizes[bisect_right(self.starts, step) - 1]

    def first(self, step: int) -> int:
        """The first position of ``step``: the sum of the sizes of all steps before it."""
        if step < 0:
            raise ValueError(f"step {step}: must be at least 0")
        at = bisect_right(self.starts, step) - 1
        return _sum(self.starts[: at + 1], self.sizes) + (step - self.starts[at]) * self.sizes[at]

    def steps(self, length: int) -> int:
        """Number of whole batches in ``length`` positions."""
        at = max(i for i in range(len(self.starts)) if i == 0 or _sum(self.starts[: i + 1], self.sizes) <= length)
        return self.starts[at] + (length - _sum(self.starts[: at + 1], self.sizes)) // self.sizes[at]

    def positions(self, step: int, rank: int = 0, world: int = 1) -> tuple[int, int]:
        """As the function ``positions``, for this schedule."""
        first = self.first(step)
        start, stop = positions(0, self.size(step), rank, world)
        return first + start, first + stop


def _sum(starts: Sequence[int], sizes: Sequence[int]) -> int:
    return sum((high - low) * size for (low, high), size in zip(pairwise(starts), sizes, strict=False))


def _check(step: int, size: int, rank: int, world: int) -> None:
    if step < 0 or size < 1:
        raise ValueError(f"step {step} of size {size}: must be at least 0 and 1")
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of world {world}: must be from 0 to world - 1")
