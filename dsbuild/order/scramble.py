"""Scrambling: the three public mixing functions that all orders are made of; never a library's random generator.

All arithmetic is on uint64, modulo 2**64, so every machine and numpy gives the same bits.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""uint64 arrays."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio, odd: the step of SplitMix64."""

_U27, _U30, _U31, _U33 = (np.uint64(n) for n in (27, 30, 31, 33))
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_S1, _S2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def fmix64(words: Words, scratch: Words | None = None) -> Words:
    """The finaliser of MurmurHash3 (Appleby, public domain), a bijection on 64 bits; changes ``words`` in place.

    ``scratch``: an array of the same shape to overwrite, so that a loop allocates nothing.
    """
    spare = np.empty_like(words) if scratch is None else scratch
    for factor in (_F1, _F2):
        np.right_shift(words, _U33, out=spare)
        np.bitwise_xor(words, spare, out=words)
        np.multiply(words, factor, out=words)
    np.right_shift(words, _U33, out=spare)
    return np.bitwise_xor(words, spare, out=words)


def splitmix64(seeds: Words, numbers: Words) -> Words:
    """Output number ``numbers[i]`` (from 0) of the SplitMix64 generator seeded ``seeds[i]``, any output in O(1).

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants of Vigna's
    ``splitmix64.c``. Shapes broadcast.
    """
    state: Words = np.asarray((numbers + np.uint64(1)) * GOLDEN + seeds)
    for shift, factor in ((_U30, _S1), (_U27, _S2)):
        state ^= state >> shift
        state *= factor
    state ^= state >> _U31
    return state


def words(key: bytes, count: int) -> tuple[int, ...]:
    """The first ``count`` words of SHAKE-256 of ``key``, 8 bytes each, little-endian."""
    stream = hashlib.shake_256(key).digest(8 * count)
    return tuple(int.from_bytes(stream[at : at + 8], "little") for at in range(0, 8 * count, 8))
