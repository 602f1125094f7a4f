"""Family: many permutations of [0, n) under one key, one for each number from 0; any index of any of them in O(1).

Number m has the words p(s_r, m) of SplitMix64, s_r being the words of the key; else it is as ``permute`` says. So the
words of a whole array of numbers cost as little as its hashing, and nothing is built for one of them ahead of use.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.network import ROUNDS, Network
from dsbuild.order.permute import TABLE, check_length, tables
from dsbuild.order.scramble import splitmix64, words

Ints = NDArray[np.int64]

_BLOCK = 8192
_HELD = 1 << 14
"""Entries of the tables that are kept, 2 bytes each, and that are made at once."""


class Family:
    """The permutations of ``n`` things under ``key`` (any bytes). Picklable, safe to share between threads.

    Where n <= 4,096 the tables last used are kept, at most 32 KiB of them; they are replaced in one assignment.
    Raises ``ValueError`` for n below 0 or above 2**48.
    """

    __slots__ = ("_held", "_key", "_network", "_seeds", "n")

    def __init__(self, key: bytes, n: int) -> None:
        check_length(n)
        self.n = n
        self._key = key
        self._seeds = np.array(words(key, ROUNDS), np.uint64).reshape(ROUNDS, 1)
        self._network = Network(max(n, 1))
        self._held = (np.empty(0, np.int64), np.empty((0, n if n <= TABLE else 0), np.uint16))

    def __reduce__(self) -> tuple[type[Family], tuple[bytes, int]]:
        return type(self), (self._key, self.n)

    def __call__(self, numbers: Ints, positions: Ints) -> Ints:
        """The indices at ``positions`` of the permutations ``numbers``, both int64 [m] and in range: int64 [m]."""
        return self._map(numbers, positions, forward=True)

    def inverse(self, numbers: Ints, indices: Ints) -> Ints:
        """The positions at which ``indices`` stand: the inverse of calling."""
        return self._map(numbers, indices, forward=False)

    def _map(self, numbers: Ints, values: Ints, *, forward: bool) -> Ints:
        found = np.empty(values.size, np.int64)
        for start in range(0, values.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            distinct, which = _distinct(numbers[block])
            if self.n <= TABLE:
                found[block] = self._look_up(distinct, which, values[block], forward)
                continue
            keys = splitmix64(self._seeds, distinct.astype(np.uint64))
            keys = keys if len(distinct) == 1 else keys[:, which]
            found[block] = self._network.walk(values[block].astype(np.uint64), keys, forward=forward)
        return found

    def _look_up(self, distinct: Ints, which: Ints, values: Ints, forward: bool) -> Ints:
        most = max(1, min(_BLOCK, _HELD // max(self.n, 1)))
        if len(distinct) > most:
            found = np.empty(values.size, np.int64)
            for start in range(0, len(distinct), most):
                some = np.flatnonzero((which >= start) & (which < start + most))
                part = distinct[start : start + most]
                found[some] = self._look_up(part, which[some] - start, values[some], forward)
            return found
        orders, rows = self._tables(distinct, most)
        if not forward:
            orders, rows = _inverses(orders[rows]), np.arange(len(rows))
        return orders[rows[which], values].astype(np.int64)

    def _tables(self, distinct: Ints, most: int) -> tuple[NDArray[np.uint16], Ints]:
        """Tables, and the row in them of each of ``distinct`` (ascending); at most ``most`` are kept."""
        held, orders = self._held  # read once: another thread may replace it
        missing = np.setdiff1d(distinct, held, assume_unique=True)
        if missing.size:
            if len(held) + len(missing) > most:
                kept = np.flatnonzero(np.isin(held, distinct, assume_unique=True))
                held, orders = held[kept], orders[kept]
            made = tables(splitmix64(self._seeds[0], missing.astype(np.uint64)), self.n)
            held, orders = np.concatenate((held, missing)), np.concatenate((orders, made))
            order = np.argsort(held)
            held, orders = held[order], orders[order]
            self._held = (held, orders)
        return orders, np.searchsorted(held, distinct)


def _inverses(orders: NDArray[np.uint16]) -> NDArray[np.uint16]:
    found = np.empty_like(orders)
    np.put_along_axis(found, orders.astype(np.int64), np.arange(orders.shape[1], dtype=np.uint16)[None, :], axis=1)
    return found


def _distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """The distinct ``numbers`` (at least one), ascending, and which of them each is."""
    changes = np.diff(numbers, prepend=numbers[0])
    if changes.min() >= 0:  # as where positions ascend: no sort is needed
        first = changes > 0
        which = np.cumsum(first).astype(np.int64)
        first[0] = True
        return numbers[first], which
    distinct, found = np.unique(numbers, return_inverse=True)
    return distinct, found.reshape(-1).astype(np.int64)


class Uneven:
    """A family of permutations of ``n`` things, but for the numbers in ``others``, which are of as many as it says."""

    __slots__ = ("_family", "_others")

    def __init__(self, key: bytes, n: int, others: Mapping[int, int]) -> None:
        self._family = Family(key, n)
        self._others = tuple((number, Family(key, size)) for number, size in others.items() if size != n)

    def __call__(self, numbers: Ints, positions: Ints) -> Ints:
        """As calling ``Family``."""
        return self._map(numbers, positions, forward=True)

    def inverse(self, numbers: Ints, indices: Ints) -> Ints:
        """As ``Family.inverse``."""
        return self._map(numbers, indices, forward=False)

    def _map(self, numbers: Ints, values: Ints, *, forward: bool) -> Ints:
        apart = [(numbers == number, family) for number, family in self._others]
        apart = [(chosen, family) for chosen, family in apart if chosen.any()]
        if not apart:
            return self._family(numbers, values) if forward else self._family.inverse(numbers, values)
        rest = ~np.logical_or.reduce([chosen for chosen, _ in apart])
        found = np.empty(values.size, np.int64)
        for chosen, family in (*apart, (rest, self._family)):
            found[chosen] = (family if forward else family.inverse)(numbers[chosen], values[chosen])
        return found
