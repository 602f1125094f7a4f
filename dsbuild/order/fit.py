"""Fit: records packed whole into bins of a given capacity, by best-fit-decreasing in windows of successive records.

Linear in the records: bins stand on stacks by their free room, and a bitmap of two levels finds the least room that
holds a record. Records of one length are placed together: a bin with room f that takes the first of them takes
f div length of them in a row, since after each its room is the least that holds the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

VERSION = 1
WINDOW = 1 << 14
"""Records of a window; bins hold records of one window only."""

Ints = NDArray[np.int64]

_BITS = 9
_DIGIT = (1 << _BITS) - 1


def fit(lengths: Sequence[int] | NDArray[np.integer], capacity: int) -> tuple[Ints, Ints]:
    """Bins of records of ``lengths`` [n], none cut: (offsets [bins + 1], rows), bin i having rows[offsets[i]:[i + 1]].

    Windows are packed one by one, by falling length, then by row. A record goes into the bin of its window with the
    least free room that holds it, among equal rooms into the bin changed last; else into a new bin. Rows ascend in a
    bin, and bins in their first rows. Records of length 0 are in no bin. Raises ``ValueError`` for a length below 0 or
    above ``capacity``.
    """
    sizes = _checked(lengths, capacity)
    if sizes.size and sizes.max() > capacity:
        row = int(np.argmax(sizes > capacity))
        raise ValueError(f"record {row:,} is {sizes[row]:,} long: a bin holds {capacity:,}")
    bins = np.zeros(len(sizes), np.int64)
    opened = 0
    for start in range(0, len(sizes), WINDOW):
        window = slice(start, start + WINDOW)
        bins[window], more = _window(sizes[window], capacity)
        bins[window] += opened
        opened += more
    return _listed(bins, np.flatnonzero(sizes))


def each(lengths: Sequence[int] | NDArray[np.integer], capacity: int) -> tuple[Ints, Ints]:
    """As ``fit``, but one record a bin: all records, in order, but those longer than ``capacity``."""
    rows = np.flatnonzero(_checked(lengths, capacity) <= capacity).astype(np.int64)
    return np.arange(len(rows) + 1, dtype=np.int64), rows


def _checked(lengths: Sequence[int] | NDArray[np.integer], capacity: int) -> Ints:
    sizes = np.asarray(lengths).astype(np.int64)
    if capacity < 1 or (sizes.size and sizes.min() < 0):
        raise ValueError(f"lengths from {sizes.min(initial=0):,} in bins of {capacity:,}: must be at least 0 and 1")
    return sizes


def _listed(bins: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """(offsets, rows) of the ``rows`` that are in a bin, where row r is in ``bins[r]``."""
    chosen = bins[rows]
    _, firsts, which = np.unique(chosen, return_index=True, return_inverse=True)
    rank = np.empty(len(firsts), np.int64)
    rank[np.argsort(firsts)] = np.arange(len(firsts))
    ranked = rank[which.reshape(-1)]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(ranked, minlength=len(firsts)))))
    return offsets.astype(np.int64), rows[np.argsort(ranked, kind="stable")].astype(np.int64)


def _window(sizes: Ints, capacity: int) -> tuple[Ints, int]:
    """The bin of each record of a window, from 0 (those of length 0: bin 0), and the number of bins."""
    order = np.argsort(-sizes, kind="stable")
    order = order[: np.count_nonzero(sizes)]
    if not order.size:
        return np.zeros(len(sizes), np.int64), 0
    falling = sizes[order]
    runs = np.flatnonzero(np.diff(falling, prepend=0)).tolist()
    rooms = _Rooms(capacity, int(falling[-1]))
    placed: list[int] = []
    for start, stop in zip(runs, [*runs[1:], len(order)], strict=True):
        rooms.place(int(falling[start]), stop - start, placed)
    bins = np.zeros(len(sizes), np.int64)
    bins[order] = placed
    return bins, rooms.opened


class _Rooms:
    """The bins of a window, by their free room; those with less room than ``shortest`` are forgotten."""

    __slots__ = ("_capacity", "_shortest", "_stacks", "_summary", "_words", "opened")

    def __init__(self, capacity: int, shortest: int) -> None:
        self.opened = 0
        self._capacity = capacity
        self._shortest = shortest
        self._stacks: dict[int, list[int]] = {}  # by room, the bins, that changed last at the end
        # bit f of the bitmap is set where a bin has room f: in words of 512 bits, and which of them are not 0
        self._words = [0] * ((capacity >> _BITS) + 1)
        self._summary = 0

    def place(self, length: int, count: int, placed: list[int]) -> None:
        """Put ``count`` records of ``length`` into bins, whose numbers are appended to ``placed``."""
        while count:
            room = self._least(length)
            each = room // length
            wanted = count // each
            if wanted:
                bins = self._take(room, wanted)
                placed.extend(bins if each == 1 else [number for number in bins for _ in range(each)])
            else:  # fewer records are left than the bin takes
                each, bins = count, self._take(room, 1)
                placed.extend(bins * each)
            count -= each * len(bins)
            self._put(room - each * length, bins)

    def _least(self, length: int) -> int:
        """The least room of at least ``length``; the capacity, which only new bins have, if there is none."""
        number = length >> _BITS
        word = self._words[number] >> (length & _DIGIT)
        if word:
            return length + (word & -word).bit_length() - 1
        summary = self._summary >> (number + 1)
        if not summary:
            return self._capacity
        number += (summary & -summary).bit_length()
        word = self._words[number]
        return (number << _BITS) + (word & -word).bit_length() - 1

    def _take(self, room: int, most: int) -> list[int]:
        """At most ``most`` bins of ``room``, the one changed last first; as many new ones for the capacity."""
        if room == self._capacity:
            self.opened += most
            return list(range(self.opened - most, self.opened))
        stack = self._stacks[room]
        found = stack[: -most - 1 : -1]
        del stack[-most:]
        if not stack:
            number = room >> _BITS
            self._words[number] ^= 1 << (room & _DIGIT)
            if not self._words[number]:
                self._summary ^= 1 << number
        return found

    def _put(self, room: int, bins: list[int]) -> None:
        if room < self._shortest:
            return
        stack = self._stacks.get(room)
        if stack:
            stack.extend(bins)
            return
        self._stacks[room] = bins
        number = room >> _BITS
        self._words[number] |= 1 << (room & _DIGIT)
        self._summary |= 1 << number
