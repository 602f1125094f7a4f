"""Permutation: a keyed bijection on [0, n), any index in O(1), with no table longer than 4,096.

Up to 4,096 the order is the argsort of hashed indices, because a Feistel network on a tiny domain favours some orders
at any number of rounds. Beyond, six rounds of a generalised Feistel network on the digits of the index in base c, with
cycle walking. Four rounds are too few: differences at lag c show it. ``docs/internals/order.md`` has the whole text.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dsbuild.digest import Digest, Domain, of_value
from dsbuild.order.scramble import GOLDEN, Words, fmix64, words

VERSION = 1
TABLE = 4096
"""The largest n that is ordered by sorting."""
MOST = 1 << 48
"""The largest n."""
ROUNDS = 6

_BLOCK = 8192
_U24, _U40 = np.uint64(24), np.uint64(40)


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

    __slots__ = ("_columns", "_keys", "_rows", "_table", "n")

    def __init__(self, key: bytes, n: int) -> None:
        if not 0 <= n <= MOST:
            raise ValueError(f"a permutation of {n:,} things: must be from 0 to 2**48")
        self.n = n
        self._keys = tuple(np.uint64(word) for word in words(key, ROUNDS))
        self._table: NDArray[np.uint16] | None = None
        self._rows = self._columns = np.uint64(1)
        if n <= TABLE:
            self._table = _sorted(self._keys[0], n)
        else:
            rows = math.isqrt(n - 1) + 1
            self._rows, self._columns = np.uint64(rows), np.uint64(-(-n // rows))

    def __call__(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """The indices at ``positions`` (integers of any shape): int64 of the same shape.

        Raises ``IndexError`` for a position outside [0, n) and ``TypeError`` for other dtypes.
        """
        return self._map(positions, forward=True)

    def inverse(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """The positions at which ``indices`` stand: the inverse of calling. Raises as calling does."""
        return self._map(indices, forward=False)

    def _map(self, given: NDArray[np.integer], *, forward: bool) -> NDArray[np.int64]:
        values = np.asarray(given)
        if values.dtype.kind not in "iu":
            raise TypeError(f"positions of dtype {values.dtype}: must be integers")
        if values.size and (values.min() < 0 or values.max() >= self.n):
            raise IndexError(f"positions {values.min()} to {values.max()} of {self.n:,}")
        if self._table is not None:
            table = self._table if forward else np.argsort(self._table)
            return np.asarray(table[values], np.int64)
        flat = values.reshape(-1)
        found = np.empty(flat.size, np.int64)
        for start in range(0, flat.size, _BLOCK):
            found[start : start + _BLOCK] = self._walk(flat[start : start + _BLOCK].astype(np.uint64), forward)
        return found.reshape(values.shape)

    def _walk(self, values: Words, forward: bool) -> Words:
        network = self._forward if forward else self._backward
        limit = np.uint64(self.n)
        values = network(values)
        outside = np.flatnonzero(values >= limit)
        while outside.size:
            values[outside] = network(values[outside])
            outside = outside[values[outside] >= limit]
        return values

    def _forward(self, values: Words) -> Words:
        left = values // self._columns
        right = values - left * self._columns
        mask, spare = np.empty_like(values), np.empty_like(values)
        for number, word in enumerate(self._keys):
            half, other, modulus = (right, left, self._columns) if number % 2 else (left, right, self._rows)
            _mask(other, word, modulus, mask, spare)
            half += mask
            # half is below 2 modulus, and half - modulus wraps to a huge number where half is below modulus,
            # so the lesser of the two is half mod modulus
            np.subtract(half, modulus, out=mask)
            np.minimum(half, mask, out=half)
        left *= self._columns
        left += right
        return left

    def _backward(self, values: Words) -> Words:
        left = values // self._columns
        right = values - left * self._columns
        mask, spare = np.empty_like(values), np.empty_like(values)
        for number in reversed(range(ROUNDS)):
            half, other, modulus = (right, left, self._columns) if number % 2 else (left, right, self._rows)
            _mask(other, self._keys[number], modulus, mask, spare)
            half -= mask
            np.add(half, modulus, out=mask)
            np.minimum(half, mask, out=half)
        left *= self._columns
        left += right
        return left


def _mask(half: Words, word: np.uint64, modulus: np.uint64, out: Words, spare: Words) -> None:
    """``out`` = f(half, modulus), in [0, modulus): 40 hashed bits scaled; fits, since modulus <= 2**24."""
    np.bitwise_xor(half, word, out=out)
    fmix64(out, spare)
    np.right_shift(out, _U24, out=out)
    np.multiply(out, modulus, out=out)
    np.right_shift(out, _U40, out=out)


def _sorted(word: np.uint64, n: int) -> NDArray[np.uint16]:
    hashed = fmix64(np.arange(1, n + 1, dtype=np.uint64) * GOLDEN + word)
    return np.argsort(hashed, kind="stable").astype(np.uint16)
