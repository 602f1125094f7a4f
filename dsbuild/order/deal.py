"""Dealing: ``order = { interleave = R }``: parts to R readers, and examples from them in turn, by arithmetic.

The R readers are ideal: they name an order, and any real number of readers can serve it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

VERSION = 1

Ints = NDArray[np.int64]


def part_order(files: Sequence[int] | NDArray[np.integer]) -> Ints:
    """The order of parts taken round-robin over files: the first part of each file, then the second of each, and so on.

    ``files``: for each part, in file order, the ordinal of its file (ascending). A file without parts left drops out.
    Returns part numbers, int64. Raises ``ValueError`` where the ordinals descend.
    """
    owner = np.asarray(files, np.int64)
    if (np.diff(owner) < 0).any():
        raise ValueError("parts must stand in the order of their files")
    turn = np.arange(len(owner)) - np.searchsorted(owner, owner, side="left")
    return np.lexsort((owner, turn)).astype(np.int64)


def reader_parts(order: Ints, readers: int) -> list[Ints]:
    """The parts of each of ``readers`` readers: part number j of ``order`` goes to reader j mod R, in order.

    Readers without parts, the last of more readers than parts, are left out (but the first): they have no turn.
    """
    if readers < 1:
        raise ValueError(f"interleave {readers}: must be at least 1")
    return [order[reader::readers] for reader in range(max(min(readers, len(order)), 1))]


class Deal:
    """Examples taken in turn from readers of given ``lengths``; a reader without examples left drops out.

    Calling maps examples to (reader, index in the reader) in O(log R) each and O(R log R) memory: a search among the
    distinct lengths gives the turn, a wavelet tree the reader (Claude and Navarro, "The wavelet matrix", 2012).
    """

    __slots__ = ("_active", "_firsts", "_lengths", "_ranks", "_turns", "_zeros", "length")

    def __init__(self, lengths: Sequence[int] | NDArray[np.integer]) -> None:
        sizes = np.asarray(lengths, np.int64)
        if not sizes.size or sizes.min() < 0:
            raise ValueError("readers must be at least 1, of at least 0 examples each")
        self._lengths = sizes
        self.length = int(sizes.sum())
        """Number of examples of all readers."""
        # stretches of turns with the same readers: from turn _turns[i] on, _active[i] readers, at example _firsts[i]
        self._turns = np.unique(np.concatenate(([0], sizes)))[:-1]
        self._active = len(sizes) - np.searchsorted(np.sort(sizes), self._turns, side="right")
        spans = np.diff(self._turns) * self._active[:-1]
        self._firsts = np.concatenate(([0], np.cumsum(spans)))[: len(self._turns)].astype(np.int64)
        # readers from the longest to the shortest: those of any turn are a prefix
        self._ranks, self._zeros = _wavelets(np.argsort(-sizes, kind="stable"))

    def __call__(self, examples: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """(reader, index) of ``examples`` (int array). Raises ``IndexError`` for one outside [0, ``length``)."""
        chosen = np.asarray(examples).astype(np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.length):
            raise IndexError(f"examples {chosen.min():,} to {chosen.max():,} of {self.length:,}")
        if not chosen.size:
            return chosen, chosen.copy()
        stretch = np.searchsorted(self._firsts, chosen, side="right") - 1
        active = self._active[stretch]
        turns, places = np.divmod(chosen - self._firsts[stretch], active)
        return self._select(places, active), self._turns[stretch] + turns

    def inverse(self, readers: NDArray[np.integer], indices: NDArray[np.integer]) -> Ints:
        """The examples that are ``indices`` of ``readers`` (int arrays, one shape): the inverse of calling, as fast.

        Raises ``IndexError`` for a reader or an index that there is not.
        """
        owners, turns = np.asarray(readers).astype(np.int64), np.asarray(indices).astype(np.int64)
        if owners.size and (owners.min() < 0 or owners.max() >= len(self._lengths)):
            raise IndexError(f"readers {owners.min():,} to {owners.max():,} of {len(self._lengths):,}")
        outside = (turns < 0) | (turns >= self._lengths[owners])
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            reader = int(owners.flat[at])
            raise IndexError(f"example {turns.flat[at]:,} of reader {reader}, which has {self._lengths[reader]:,}")
        stretch = np.searchsorted(self._turns, turns, side="right") - 1
        active = self._active[stretch]
        found: Ints = self._firsts[stretch] + (turns - self._turns[stretch]) * active
        found += self._below(owners, active)
        return found

    def _below(self, readers: Ints, active: Ints) -> Ints:
        """How many of the ``active`` longest readers come before ``readers``."""
        low, high, found = np.zeros_like(active), active, np.zeros_like(active)
        bit = len(self._ranks)
        for ranks, zeros in zip(self._ranks, self._zeros, strict=True):
            bit -= 1
            low_zeros, high_zeros = ranks[low], ranks[high]
            right = (readers >> bit & 1).astype(bool)
            found = found + np.where(right, high_zeros - low_zeros, 0)
            low = np.where(right, zeros + low - low_zeros, low_zeros)
            high = np.where(right, zeros + high - high_zeros, high_zeros)
        return found

    def _select(self, places: Ints, active: Ints) -> Ints:
        """The reader at place ``places`` (by number) among the ``active`` longest."""
        low, high, found = np.zeros_like(active), active, np.zeros_like(active)
        for ranks, zeros in zip(self._ranks, self._zeros, strict=True):
            low_zeros, high_zeros = ranks[low], ranks[high]
            inside = high_zeros - low_zeros
            right = places >= inside
            found = found * 2 + right
            places = np.where(right, places - inside, places)
            low = np.where(right, zeros + low - low_zeros, low_zeros)
            high = np.where(right, zeros + high - high_zeros, high_zeros)
        return found


def _wavelets(values: NDArray[np.integer]) -> tuple[list[Ints], list[int]]:
    """The wavelet matrix of a permutation: for each bit from the top, zeros before each place, and zeros in all."""
    ranks, totals = [], []
    for bit in reversed(range(max(len(values) - 1, 0).bit_length())):
        ones = (values >> bit & 1).astype(bool)
        ranks.append(np.concatenate(([0], np.cumsum(~ones))).astype(np.int64))
        totals.append(int((~ones).sum()))
        values = np.concatenate((values[~ones], values[ones]))
    return ranks, totals
