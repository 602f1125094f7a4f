"""Splits: which records a named split has, decided by their 64-bit keys, so that an added record moves no other.

Every split is a range of (key, row), the records' order by key: fractions are ranges of keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

VERSION = 1
KEYS = 1 << 64
"""Keys are below this."""

Bound = tuple[int, int]
"""A place in the order of (key, row); the key may be 2**64, the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The records from ``low`` to before ``high`` in the order of (key, row); rows count over the whole source."""

    low: Bound
    high: Bound

    def choose(self, keys: NDArray[np.uint64], first_row: int = 0) -> NDArray[np.bool_]:
        """Which of the records with ``keys`` (uint64), whose rows are ``first_row`` and following, are in the range."""
        return _from(keys, first_row, self.low) & ~_from(keys, first_row, self.high)


def choose(keys: NDArray[np.uint64], low: int, high: int) -> NDArray[np.bool_]:
    """Which ``keys`` (uint64) are in [low, high); ``high`` may be 2**64."""
    return Range(low=(low, 0), high=(high, 0)).choose(keys)


def thresholds(fractions: Mapping[str, Fraction]) -> dict[str, tuple[int, int]]:
    """[low, high) of the keys of each split: names in code-point order take consecutive shares of [0, 2**64).

    A border is floor(2**64 times the exact sum of the fractions before it). Where the sum is under 1, the keys from the
    last border on are in no split. Raises ``ValueError`` for fractions not in (0, 1] or of sum over 1.
    """
    found: dict[str, tuple[int, int]] = {}
    used = Fraction(0)
    for name in sorted(fractions):
        if not 0 < fractions[name] <= 1:
            raise ValueError(f"split {name!r} is {fractions[name]}: a fraction must be above 0 and at most 1")
        found[name] = (_border(used), _border(used + fractions[name]))
        used += fractions[name]
    if used > 1:
        raise ValueError(f"split fractions of sum {used}: must be at most 1")
    return found


def ranges(split: Mapping[str, Fraction | int], keys: NDArray[np.uint64] | None = None) -> dict[str, Range]:
    """The range of each split; an integer is a count of records, another number a fraction.

    Counts go first: names in code-point order take that many records each, of the lowest keys, ties by row.
    Fractions are as ``thresholds`` says, of all keys; records that a count took are in no fraction. So a fraction of 1
    beside counts is all the rest. ``keys``: those of the whole source in order of rows, needed only where there are
    counts. Raises ``ValueError`` for a count below 1, counts without ``keys``, or fewer records than counts.
    """
    counts = {name: n for name, n in split.items() if isinstance(n, int)}
    shares = {name: n for name, n in split.items() if not isinstance(n, int)}
    found: dict[str, Range] = {}
    low: Bound = (0, 0)
    bounds = _count_bounds([counts[name] for name in sorted(counts)], keys)
    for name, high in zip(sorted(counts), bounds, strict=True):
        found[name] = Range(low=low, high=high)
        low = high
    for name, (start, stop) in thresholds(shares).items():
        found[name] = Range(low=max(low, (start, 0)), high=max(low, (stop, 0)))
    return {name: found[name] for name in sorted(found)}


def _count_bounds(counts: list[int], keys: NDArray[np.uint64] | None) -> list[Bound]:
    """Where each of the consecutive ``counts`` ends in the order of (key, row)."""
    if not counts:
        return []
    if keys is None:
        raise ValueError("a split by count needs the keys of all records")
    if any(isinstance(count, bool) or count < 1 for count in counts):
        raise ValueError(f"split counts {counts}: must be at least 1")
    if sum(counts) > len(keys):
        raise ValueError(f"split counts of sum {sum(counts):,}: the source has only {len(keys):,} records")
    found: list[Bound] = []
    for end in np.cumsum(counts).tolist():
        if end == len(keys):
            found.append((KEYS, 0))
            continue
        key = np.partition(keys, end)[end]  # the key of the first record after the split, and its row
        before = end - int((keys < key).sum())
        found.append((int(key), int(np.flatnonzero(keys == key)[before])))
    return found


def _from(keys: NDArray[np.uint64], first_row: int, bound: Bound) -> NDArray[np.bool_]:
    """Which records stand at or after ``bound``."""
    key, row = bound
    if key >= KEYS:
        return np.zeros(len(keys), np.bool_)
    reached = keys >= np.uint64(key)
    skipped = min(max(row - first_row, 0), len(keys))
    if skipped:
        reached[:skipped] &= keys[:skipped] != np.uint64(key)
    return reached


def _border(share: Fraction) -> int:
    return share.numerator * KEYS // share.denominator
