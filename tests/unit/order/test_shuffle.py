"""Shuffles: what names which order, and the edges and refusals of all of them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dsbuild.order.block import BlockPermutation
from dsbuild.order.era import EraPermutation
from dsbuild.order.permute import Permutation
from dsbuild.order.shuffle import Order, Unshuffled, order_of

SHUFFLES: list[str | Mapping[str, int]] = ["full", "none", {"block": 7, "window": 3}, {"era": 9}]


def test_names() -> None:
    orders: list[Order] = [order_of(shuffle, b"k", 1000) for shuffle in SHUFFLES]
    assert [type(order) for order in orders] == [Permutation, Unshuffled, BlockPermutation, EraPermutation]
    assert [order.n for order in orders] == [1000] * 4


@pytest.mark.parametrize("shuffle", ["some", {}, {"block": 3}, {"era": 3, "window": 2}])
def test_other_names(shuffle: Any) -> None:
    with pytest.raises(ValueError, match="must be 'full'"):
        order_of(shuffle, b"k", 10)


@pytest.mark.parametrize("shuffle", [{"era": 0}, {"block": 0, "window": 1}, {"block": 1, "window": -1}])
def test_sizes_below_one(shuffle: Mapping[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        order_of(shuffle, b"k", 10)


@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
class TestEach:
    def test_none_and_one(self, shuffle: str | Mapping[str, int]) -> None:
        nothing = np.empty(0, np.int64)
        for n in (0, 1):
            order = order_of(shuffle, b"k", n)
            assert order(nothing).tolist() == order.inverse(nothing).tolist() == []
        assert order_of(shuffle, b"k", 1)(np.array([0])).tolist() == [0]

    @pytest.mark.parametrize("n", [30, 10**6])
    def test_shapes_and_dtypes(self, shuffle: str | Mapping[str, int], n: int) -> None:
        order = order_of(shuffle, b"k", n)
        flat = order(np.arange(24))
        assert flat.dtype == np.int64
        assert order(np.arange(24, dtype=np.uint16).reshape(2, 12)).tolist() == flat.reshape(2, 12).tolist()
        assert order(np.array(3)).shape == ()
        assert order(np.array(3, np.uint64)) == flat[3]
        back = order.inverse(flat.reshape(2, 12).astype(np.uint64))
        assert back.dtype == np.int64 and back.tolist() == np.arange(24).reshape(2, 12).tolist()

    def test_outside(self, shuffle: str | Mapping[str, int]) -> None:
        for n in (0, 10, 10**6):
            order = order_of(shuffle, b"k", n)
            for bad in (-1, n):
                with pytest.raises(IndexError, match="positions"):
                    order(np.array([0, bad]))
                with pytest.raises(IndexError, match="positions"):
                    order.inverse(np.array([0, bad]))
            with pytest.raises(TypeError, match="float64"):
                order(np.array([0.5]))
        for n in (-1, (1 << 48) + 1):
            with pytest.raises(ValueError, match=r"2\*\*48"):
                order_of(shuffle, b"k", n)

    def test_the_argument_is_left_alone(self, shuffle: str | Mapping[str, int]) -> None:
        order = order_of(shuffle, b"k", 10_000)
        positions = np.arange(10_000)
        found = order(positions)
        found[:] = 0
        order.inverse(positions)[:] = 0
        assert np.array_equal(positions, np.arange(10_000))

    def test_pickles(self, shuffle: str | Mapping[str, int]) -> None:
        for n in (50, 10_000):
            order = order_of(shuffle, b"k", n)
            found = order(np.arange(n))
            assert np.array_equal(pickle.loads(pickle.dumps(order))(np.arange(n)), found)


def test_blocks_and_eras_of_one_key_have_their_own_orders() -> None:
    orders = [order_of(shuffle, b"k", 64) for shuffle in ("full", {"era": 64}, {"block": 1, "window": 1})]
    orders.append(order_of({"block": 64, "window": 1}, b"k", 64))
    assert len({tuple(order(np.arange(64))) for order in orders}) == 4


def test_sizes_beyond_n_are_n() -> None:
    positions = np.arange(50)
    for big in (50, 51, 10**20):
        assert np.array_equal(order_of({"era": big}, b"k", 50)(positions), order_of({"era": 50}, b"k", 50)(positions))
        wide = order_of({"block": big, "window": big}, b"k", 50)
        assert np.array_equal(wide(positions), order_of({"block": 50, "window": 1}, b"k", 50)(positions))


def test_no_memory_of_n() -> None:
    huge = 1 << 48
    for shuffle in ({"block": 1 << 20, "window": 1 << 20}, {"block": 64, "window": 64}, {"era": 4096}, {"era": huge}):
        order = order_of(shuffle, b"k", huge)
        positions = np.arange(huge - 1000, huge)
        assert np.array_equal(order.inverse(order(positions)), positions)
