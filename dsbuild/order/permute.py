"""Permutation: a keyed bijection on [0, n), any index in O(1), with no table longer than 4,096.

Up to 4,096 the order is the argsort of hashed indices, because a Feistel network on a tiny domain favours some orders
at any number of rounds. Beyond, six rounds of a generalised Feistel network on the digits of the index in base c, with
cycle walking. Four rounds are too few: differences at lag c show it. ``docs/internals/order.md`` has the whole text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsbuild.digest import Digest, Domain, of_value
from dsbuild.order.network import MOST, ROUNDS, Network
from dsbuild.order.scramble import GOLDEN, Words, fmix64, words

VERSION = 1
TABLE = 4096
"""The largest n that is ordered by sorting."""

_BLOCK = 8192


def key(seed: int, source: Digest, epoch: int) -> bytes:
    """The 32-byte key of the order of ``source`` (its id) in ``epoch`` (from 0) under the recipe's ``seed``.

    A hash of all three, never ``seed + epoch``, so no epoch of one seed is an epoch of another.
    """
    value = {"for": "permutation", "version": VERSION, "seed": seed, "source": source.hex, "epoch": epoch}
    return of_value(Domain.KEY, value).raw


class Permutation:
    """The order of ``n`` things under ``key`` (any bytes): calling it maps positions to indices, both from 0.

    Immutable, picklable, safe to share between threads. Raises ``ValueError`` for n below 0 or above 2**48.
    """

    __slots__ = ("_network", "_table", "_words", "n")

    def __init__(self, key: bytes, n: int) -> None:
        check_length(n)
        self.n = n
        self._words = np.array(words(key, ROUNDS), np.uint64).reshape(ROUNDS, 1)
        self._table = tables(self._words[0], n)[0] if n <= TABLE else None
        self._network = Network(max(n, 1))

    def __call__(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """The indices at ``positions`` (integers of any shape): int64 of the same shape.

        Raises ``IndexError`` for a position outside [0, n) and ``TypeError`` for other dtypes.
        """
        return self._map(positions, forward=True)

    def inverse(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """The positions at which ``indices`` stand: the inverse of calling. Raises as calling does."""
        return self._map(indices, forward=False)

    def _map(self, given: NDArray[np.integer], *, forward: bool) -> NDArray[np.int64]:
        values = checked(given, self.n)
        if self._table is not None:
            table = self._table if forward else np.argsort(self._table)
            return np.asarray(table[values], np.int64)
        flat = values.reshape(-1)
        found = np.empty(flat.size, np.int64)
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK].astype(np.uint64)
            found[start : start + _BLOCK] = self._network.walk(block, self._words, forward=forward)
        return found.reshape(values.shape)


def check_length(n: int) -> None:
    """Raise ``ValueError`` for a number of things to order that is below 0 or above 2**48."""
    if not 0 <= n <= MOST:
        raise ValueError(f"a permutation of {n:,} things: must be from 0 to 2**48")


def checked(positions: NDArray[np.integer], n: int) -> NDArray[np.integer]:
    """``positions`` as an array. Raises ``IndexError`` for one outside [0, n), ``TypeError`` unless integers."""
    values = np.asarray(positions)
    if values.dtype.kind not in "iu":
        raise TypeError(f"positions of dtype {values.dtype}: must be integers")
    if values.size and (values.min() < 0 or values.max() >= n):
        raise IndexError(f"positions {values.min()} to {values.max()} of {n:,}")
    return values


def tables(first: Words, n: int) -> NDArray[np.uint16]:
    """The orders of n <= 4,096 things under keys whose first words are ``first`` (m): uint16 [m, n].

    No two hashes of one order are equal, since each step is a bijection on words; so any sort gives the same.
    """
    steps = np.arange(1, n + 1, dtype=np.uint64) * GOLDEN
    return np.argsort(fmix64(steps + first[:, None]), axis=1).astype(np.uint16)
