"""Steps: batch sizes by step, and the share of a batch that is a rank's, with errors for callers."""

from __future__ import annotations

import operator
from typing import Any

from dsbuild.load.shape import RangeError
from dsbuild.order.partition import Schedule, positions, uneven_positions


def whole(value: Any, name: str, *, least: int = 0) -> int:
    """``value`` as a plain int, whatever integers it is of (numpy's, torch's). Raises ``RangeError`` for others."""
    try:
        found = operator.index(value)
    except TypeError:
        found = least - 1
    if found < least:
        raise RangeError(f"{name} {value!r}: must be a whole number of at least {least}", kind="out-of-range")
    return found


def schedule_of(size: int | Schedule) -> Schedule:
    """``size`` as batch sizes by step. Raises ``RangeError`` for what is no whole number of at least 1."""
    if isinstance(size, Schedule):
        return size
    return Schedule(starts=(0,), sizes=(whole(size, "size of batches", least=1),))


def share(first: int, size: int, rank: int, world: int, *, uneven: bool = False) -> tuple[int, int]:
    """[start, stop) that is ``rank``'s of the ``size`` positions from ``first`` on. Raises ``RangeError``."""
    rank, world = whole(rank, "rank"), whole(world, "world", least=1)
    try:
        start, stop = (uneven_positions if uneven else positions)(0, size, rank, world)
    except ValueError as error:
        if rank >= world:
            raise RangeError(str(error), kind="out-of-range") from None
        raise RangeError(
            f"batches of {size} examples over {world} ranks: the number of ranks must divide them",
            kind="out-of-range",
            hint="choose another size, or 'uneven' for shares that differ by one",
        ) from None
    return first + start, first + stop
