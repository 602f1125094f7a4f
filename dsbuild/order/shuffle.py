"""Shuffle: the order of one epoch of a source that a recipe's ``shuffle`` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.block import BlockPermutation
from dsbuild.order.era import EraPermutation
from dsbuild.order.permute import Permutation, check_length, checked


class Order(Protocol):
    """A bijection on [0, ``n``): calling maps positions to indices, integers of any shape to int64 of that shape.

    Immutable, picklable, safe to share between threads. Calls raise ``IndexError`` outside [0, ``n``).
    """

    @property
    def n(self) -> int:
        """Number of examples."""

    def __call__(self, positions: NDArray[np.integer], /) -> NDArray[np.int64]:
        """The indices at ``positions``."""

    def inverse(self, indices: NDArray[np.integer], /) -> NDArray[np.int64]:
        """The positions at which ``indices`` stand."""


class Unshuffled:
    """The order that leaves ``n`` examples where they are. Raises ``ValueError`` for n below 0 or above 2**48."""

    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        check_length(n)
        self.n = n

    def __call__(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """``positions`` as int64. Raises as ``permute.Permutation`` does."""
        return checked(positions, self.n).astype(np.int64)

    inverse = __call__


def order_of(shuffle: str | Mapping[str, int], key: bytes, n: int) -> Order:
    """The order of ``n`` examples under ``key`` (``permute.key``: one an epoch) that ``shuffle`` names.

    "full", "none", ``{"block": b, "window": w}`` or ``{"era": e}``. Raises ``ValueError`` for another one, and where
    the order's class does.
    """
    if isinstance(shuffle, str):
        if shuffle == "full":
            return Permutation(key, n)
        if shuffle == "none":
            return Unshuffled(n)
    elif set(shuffle) == {"block", "window"}:
        return BlockPermutation(key, n, shuffle["block"], shuffle["window"])
    elif set(shuffle) == {"era"}:
        return EraPermutation(key, n, shuffle["era"])
    raise ValueError(f"shuffle {shuffle!r}: must be 'full', 'none', {{block, window}} or {{era}}")
