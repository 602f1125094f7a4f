"""Era order: examples permuted within successive eras; so an era that is full has its order before n is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.family import Uneven
from dsbuild.order.permute import check_length, checked

VERSION = 1


class EraPermutation:
    """The order of ``n`` examples under ``key`` (any bytes): those of each era of ``era`` examples permuted.

    Called as ``permute.Permutation`` is. The last era may be short. Picklable, safe to share between threads. Raises
    ``ValueError`` for n below 0 or above 2**48, and for an era below 1.
    """

    __slots__ = ("_era", "_within", "n")

    def __init__(self, key: bytes, n: int, era: int) -> None:
        check_length(n)
        if era < 1:
            raise ValueError(f"eras of {era} examples: must be at least 1")
        self.n = n
        self._era = min(era, max(n, 1))
        self._within = Uneven(key + b" era", self._era, {n // self._era: n % self._era})

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
        flat = values.reshape(-1).astype(np.int64)
        eras = flat // self._era
        starts = eras * self._era
        found = (self._within if forward else self._within.inverse)(eras, flat - starts)
        found += starts
        return found.reshape(values.shape)
