"""Network: the keyed bijection on [0, n) by a generalised Feistel network on the digits in base c, walking cycles.

Why a bijection: each round adds to one digit a function of the other, so it can be undone; and a walk ends, since the
cycle returns to its start, which is below n.
"""

from __future__ import annotations

import math

import numpy as np

from dsbuild.order.scramble import Words, fmix64

MOST = 1 << 48
"""The largest n."""
ROUNDS = 6

_U24, _U40 = np.uint64(24), np.uint64(40)


class Network:
    """The bijection on [0, n), 1 <= n <= 2**48; its words come with each call, so one network serves many keys."""

    __slots__ = ("_columns", "_rows", "n")

    def __init__(self, n: int) -> None:
        rows = math.isqrt(n - 1) + 1
        self.n = n
        self._rows, self._columns = np.uint64(rows), np.uint64(-(-n // rows))

    def walk(self, values: Words, words: Words, *, forward: bool) -> Words:
        """Where ``values`` (below n) go; in place or not. ``words``: (rounds, 1), or (rounds, m) with one key a value.

        ``forward`` false gives the inverse.
        """
        once = self._forward if forward else self._backward
        limit = np.uint64(self.n)
        values = once(values, words)
        outside = np.flatnonzero(values >= limit)
        while outside.size:
            values[outside] = once(values[outside], words if words.shape[1] == 1 else words[:, outside])
            outside = outside[values[outside] >= limit]
        return values

    def _forward(self, values: Words, words: Words) -> Words:
        left = values // self._columns
        right = values - left * self._columns
        mask, spare = np.empty_like(values), np.empty_like(values)
        for number, word in enumerate(words):
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

    def _backward(self, values: Words, words: Words) -> Words:
        left = values // self._columns
        right = values - left * self._columns
        mask, spare = np.empty_like(values), np.empty_like(values)
        for number in reversed(range(len(words))):
            half, other, modulus = (right, left, self._columns) if number % 2 else (left, right, self._rows)
            _mask(other, words[number], modulus, mask, spare)
            half -= mask
            np.add(half, modulus, out=mask)
            np.minimum(half, mask, out=half)
        left *= self._columns
        left += right
        return left


def _mask(half: Words, word: Words, modulus: np.uint64, out: Words, spare: Words) -> None:
    """``out`` = f(half, modulus), in [0, modulus): 40 hashed bits scaled; fits, since modulus <= 2**24."""
    np.bitwise_xor(half, word, out=out)
    fmix64(out, spare)
    np.right_shift(out, _U24, out=out)
    np.multiply(out, modulus, out=out)
    np.right_shift(out, _U40, out=out)
