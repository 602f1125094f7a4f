"""Steps: batch sizes by step, and the share of a batch that is a rank's, with errors for callers."""

from __future__ import annotations

import operator

from dsbuild.load.shape import RangeError
from dsbuild.order.partition import Schedule, positions, uneven_positions


def schedule_of(size: int | Schedule) -> Schedule:
    """``size`` as batch sizes by step. Raises ``RangeError`` for what is no whole number of at least 1."""
    if isinstance(size, Schedule):
        return size
    try:
        whole = operator.index(size)
    except TypeError:
        whole = 0
    if whole < 1:
        raise RangeError(f"batches of {size!r} examples: must be a whole number of at least 1", kind="out-of-range")
    return Schedule(starts=(0,), sizes=(whole,))


def share(first: int, size: int, rank: int, world: int, *, uneven: bool = False) -> tuple[int, int]:
    """[start, stop) that is ``rank``'s of the ``size`` positions from ``first`` on. Raises ``RangeError``."""
    try:
        start, stop = (uneven_positions if uneven else positions)(0, size, rank, world)
    except ValueError as error:
        hint = "a batch size that the world divides, or uneven=True for shares that differ by one"
        raise RangeError(str(error), kind="out-of-range", hint=hint if size % max(world, 1) else None) from None
    return first + start, first + stop
