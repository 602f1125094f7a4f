"""Bounds: where the counts of a split end in the order of (key, row), found in a source too large to sort.

Two passes over the keys: how many there are of each top 16 bits, then the different keys of the few buckets in which a
count ends. A third pass only where a count ends among records of one key, to find the row. Equal records have equal
keys, so different keys are counted, not held as often as they occur: memory is bounded by about 1/65,536 of the
different records for each count, however often one of them is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.split import KEYS, Bound, Range, thresholds

Keys = NDArray[np.uint64]
Blocks = Callable[[], Iterable[Keys]]
"""The split keys of a whole source in order of rows, block by block, anew at each call."""

_BUCKETS = 1 << 16
_SHIFT = np.uint64(48)
_HELD = 1 << 20
"""Keys gathered before they are counted."""


def range_of(name: str, counts: Mapping[str, int], fractions: Mapping[str, Fraction], blocks: Blocks) -> Range:
    """The range of split ``name`` in a source whose keys are ``blocks``: as ``order.split.ranges`` says.

    A row of its bounds is 0 where the border falls between two keys. Raises ``ValueError`` for more counts than keys.
    """
    names = sorted(counts)
    bounds = [(0, 0), *count_bounds(blocks, np.cumsum([counts[n] for n in names]).tolist())]
    if name in counts:
        at = names.index(name)
        return Range(low=bounds[at], high=bounds[at + 1])
    start, stop = thresholds(fractions)[name]
    return Range(low=max(bounds[-1], (start, 0)), high=max(bounds[-1], (stop, 0)))


def count_bounds(blocks: Blocks, ends: Sequence[int]) -> list[Bound]:
    """For each of ``ends`` the place before which stand that many records; the end of all is (2**64, 0)."""
    tally = np.zeros(_BUCKETS, np.int64)
    for keys in blocks():
        tally += np.bincount((keys >> _SHIFT).astype(np.int64), minlength=_BUCKETS)
    starts = np.concatenate([[0], np.cumsum(tally)])
    total = int(starts[-1])
    if any(end > total for end in ends):
        raise ValueError(f"{max(ends):,} of {total:,} records")
    buckets = {end: int(np.searchsorted(starts, end, "right")) - 1 for end in ends if end < total}
    found, counts = _different(blocks, sorted(set(buckets.values())))
    tops = (found >> _SHIFT).astype(np.int64)
    bounds: dict[int, Bound] = {}
    ties: dict[int, int] = {}
    for end, bucket in buckets.items():
        first, last = np.searchsorted(tops, [bucket, bucket + 1])
        upto = np.cumsum(counts[first:last])
        rank = end - int(starts[bucket])
        at = int(np.searchsorted(upto, rank, "right"))
        bounds[end] = (int(found[first + at]), 0)
        before = rank - (int(upto[at - 1]) if at else 0)
        if before:
            ties[end] = before
    for end, row in _rows(blocks, {end: (bounds[end][0], before) for end, before in ties.items()}).items():
        bounds[end] = (bounds[end][0], row)
    return [bounds.get(end, (KEYS, 0)) for end in ends]


def rank(keys: Keys, first_row: int, bound: Bound) -> int:
    """How many of the records with ``keys``, whose rows are ``first_row`` and following, stand before ``bound``."""
    return int(Range(low=(0, 0), high=bound).choose(keys, first_row).sum())


def _different(blocks: Blocks, buckets: Sequence[int]) -> tuple[Keys, NDArray[np.int64]]:
    """The different keys of ``buckets``, sorted, and how often each occurs."""
    wanted = np.zeros(_BUCKETS, np.bool_)
    wanted[list(buckets)] = True
    found, counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    held: list[Keys] = []
    size = 0
    for keys in blocks() if buckets else ():
        held.append(keys[wanted[(keys >> _SHIFT).astype(np.int64)]])
        size += len(held[-1])
        if size >= _HELD:
            found, counts = _counted(found, counts, held)
            held, size = [], 0
    return _counted(found, counts, held)


def _counted(found: Keys, counts: NDArray[np.int64], held: Sequence[Keys]) -> tuple[Keys, NDArray[np.int64]]:
    more, times = np.unique(np.concatenate([np.zeros(0, np.uint64), *held]), return_counts=True)
    merged, where = np.unique(np.concatenate([found, more]), return_inverse=True)
    sums = np.zeros(len(merged), np.int64)
    np.add.at(sums, where.reshape(-1), np.concatenate([counts, times]))
    return merged, sums


def _rows(blocks: Blocks, ties: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """For each of ``ties`` (key, n) the row of record n (from 0) of those with that key."""
    found: dict[int, int] = {}
    left = dict(ties)
    row = 0
    for keys in blocks() if ties else ():
        for end, (key, before) in list(left.items()):
            same = np.flatnonzero(keys == np.uint64(key))
            if before < len(same):
                found[end] = row + int(same[before])
                del left[end]
            else:
                left[end] = (key, before - len(same))
        if not left:
            break
        row += len(keys)
    return found
