"""Block order: blocks of neighbours permuted, then examples among windows of blocks; so a window reads few blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.family import Uneven
from dsbuild.order.permute import Permutation, check_length, checked

VERSION = 1

Ints = NDArray[np.int64]


class BlockPermutation:
    """The order of ``n`` examples under ``key`` (any bytes), in blocks of ``block`` neighbours; the last may be short.

    The blocks are permuted; then the examples of each ``window`` successive blocks of that order among themselves, so
    the positions of a window read its blocks only. Called as ``permute.Permutation`` is. Picklable, safe to share
    between threads. Raises ``ValueError`` for n below 0 or above 2**48, and for a block or a window below 1.
    """

    # arithmetic is in slots: the position that an example would have, were the short block filled up at its end
    __slots__ = ("_block", "_edge", "_lack", "_order", "_short", "_span", "_within", "n")

    def __init__(self, key: bytes, n: int, block: int, window: int) -> None:
        check_length(n)
        if block < 1 or window < 1:
            raise ValueError(f"windows of {window} blocks of {block} examples: must be at least 1")
        self.n = n
        self._block = min(block, max(n, 1))
        blocks = -(-n // self._block)
        width = min(window, max(blocks, 1))
        self._order = Permutation(key + b" block", blocks)
        self._lack = blocks * self._block - n
        place = int(self._order.inverse(np.array(blocks - 1))) if n else 0  # where the last block lands
        self._edge = (place + 1) * self._block - self._lack  # the first position behind it
        self._span = width * self._block  # slots of a window
        self._short = place // width  # the window that it lands in
        sizes: dict[int, int] = {}
        for number in {self._short, max(blocks - 1, 0) // width}:
            slots = min((number + 1) * self._span, blocks * self._block) - number * self._span
            sizes[number] = slots - (self._lack if number == self._short else 0)
        self._within = Uneven(key + b" window", min(self._span, n), sizes)

    def __call__(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """The indices at ``positions`` (integers of any shape): int64 of the same shape.

        Raises ``IndexError`` for a position outside [0, n) and ``TypeError`` for other dtypes.
        """
        values = checked(positions, self.n)
        flat = values.reshape(-1).astype(np.int64)
        windows = self._slots(flat) // self._span
        starts = self._starts(windows)
        places, offsets = np.divmod(self._slots(starts + self._within(windows, flat - starts)), self._block)
        found = self._blocks(places)
        found *= self._block
        found += offsets
        return found.reshape(values.shape)

    def inverse(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """The positions at which ``indices`` stand: the inverse of calling. Raises as calling does."""
        values = checked(indices, self.n)
        blocks, offsets = np.divmod(values.reshape(-1).astype(np.int64), self._block)
        slots = self._order.inverse(blocks) * self._block + offsets
        windows = slots // self._span
        starts = self._starts(windows)
        slots -= self._lack * (slots >= self._edge)
        return (starts + self._within.inverse(windows, slots - starts)).reshape(values.shape)

    def _slots(self, positions: Ints) -> Ints:
        """The slots of ``positions``: behind the short block there are more slots than positions."""
        return positions + self._lack * (positions >= self._edge)

    def _starts(self, windows: Ints) -> Ints:
        """The first positions of ``windows``."""
        return windows * self._span - self._lack * (windows > self._short)

    def _blocks(self, places: Ints) -> Ints:
        """The blocks at ``places``; each place is looked up once where there are fewer of them than examples."""
        low, high = (int(places.min()), int(places.max()) + 1) if places.size else (0, 0)
        if high - low >= places.size:
            return self._order(places)
        return self._order(np.arange(low, high))[places - low]
