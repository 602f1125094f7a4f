"""Windows: equally long stretches of mapped memory, copied into the rows of one array by a single numpy call.

The view that numpy copies from spans all addresses from the lowest window to the highest one, mapped or not: it is
never touched but inside the windows. Safe because every window lies inside the values of a part that is held by the
caller, which ``stretch`` makes sure of before it hands out an address.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsbuild.load.part import Ints

_MOST = 1 << 62
"""Numpy refuses views that would have more bytes, counted with repetition."""


class _Memory:
    """An address range as numpy's array interface tells it: ``windows`` overlapping rows of ``length`` values."""

    def __init__(self, address: int, windows: int, length: int, dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "typestr": dtype.str,
            "shape": (windows, length),
            "strides": (dtype.itemsize, dtype.itemsize),
        }


class Windows:
    """k windows of ``length`` values of ``dtype`` from ``addresses`` (bytes, int64[k]) on, for rows that are ``there``.

    The caller must hold what is mapped there; the addresses of other rows (bool[k]) are not looked at. ``missing``:
    the rows that ``rows`` does not fill, ascending: those that are not there, or all where no view spans the addresses.
    """

    __slots__ = ("_dtype", "_length", "_steps", "_view", "missing")

    def __init__(self, addresses: Ints, there: np.ndarray, length: int, dtype: np.dtype[Any]) -> None:
        self._length, self._dtype = length, dtype
        self._view: np.ndarray | None = None
        self._steps = addresses
        self.missing: list[int] = list(range(len(there)))
        if not there.any():
            return
        chosen = addresses[there]
        low, high = int(chosen.min()), int(chosen.max())
        steps, rest = np.divmod(np.where(there, addresses, low) - low, dtype.itemsize)
        count = (high - low) // dtype.itemsize + 1
        if count * length * dtype.itemsize >= _MOST or low % dtype.alignment or rest.any():
            return
        self._view, self._steps = np.asarray(_Memory(low, count, length, dtype)), steps
        self.missing = np.flatnonzero(~there).tolist()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """A new array [stop - start, length] with rows [start, stop); those that are ``missing`` hold anything."""
        if self._view is None:
            return np.empty((stop - start, self._length), self._dtype)
        return np.asarray(self._view[self._steps[start:stop]])
