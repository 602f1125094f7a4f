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


def windows(addresses: Ints, length: int, dtype: np.dtype[Any]) -> np.ndarray | None:
    """A new array [k, length]: row i is the ``length`` values of ``dtype`` from ``addresses[i]`` (bytes, int64[k]) on.

    The caller must hold what is mapped there. None where no single view can span the addresses.
    """
    low, high = int(addresses.min()), int(addresses.max())
    steps, rest = np.divmod(addresses - low, dtype.itemsize)
    count = (high - low) // dtype.itemsize + 1
    if count * length * dtype.itemsize >= _MOST or low % dtype.alignment or rest.any():
        return None
    view = np.asarray(_Memory(low, count, length, dtype))
    return np.asarray(view[steps])
