"""Permutation: its edges and refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dsbuild.digest import Domain, of_bytes
from dsbuild.order import permute
from dsbuild.order.permute import Permutation


def test_none_and_one() -> None:
    assert Permutation(b"", 0)(np.array([], np.int64)).tolist() == []
    assert Permutation(b"", 1)(np.array([0])).tolist() == [0]


@pytest.mark.parametrize("n", [10, 10**6])
def test_shapes_and_dtypes(n: int) -> None:
    order = Permutation(b"k", n)
    flat = order(np.arange(6))
    assert flat.dtype == np.int64
    assert order(np.arange(6, dtype=np.uint16).reshape(2, 3)).tolist() == flat.reshape(2, 3).tolist()
    assert order(np.array(3)).shape == ()
    assert order(np.array(3)) == flat[3]


@pytest.mark.parametrize("n", [10, 10**6])
def test_outside(n: int) -> None:
    order = Permutation(b"k", n)
    for bad in (-1, n):
        with pytest.raises(IndexError, match="positions"):
            order(np.array([0, bad]))
        with pytest.raises(IndexError, match="positions"):
            order.inverse(np.array([0, bad]))
    with pytest.raises(TypeError, match="float64"):
        order(np.array([0.5]))


def test_sizes() -> None:
    for n in (-1, (1 << 48) + 1):
        with pytest.raises(ValueError, match=r"2\*\*48"):
            Permutation(b"k", n)


def test_the_argument_is_left_alone() -> None:
    positions = np.arange(10_000, dtype=np.uint64)
    Permutation(b"k", 10_000)(positions)
    assert np.array_equal(positions, np.arange(10_000))


def test_pickles() -> None:
    for n in (50, 10_000):
        order = Permutation(b"k", n)
        again = pickle.loads(pickle.dumps(order))
        assert np.array_equal(again(np.arange(n)), order(np.arange(n)))


def test_keys_differ_in_every_part() -> None:
    one, two = of_bytes(Domain.FILE, b"1"), of_bytes(Domain.FILE, b"2")
    keys = [permute.key(1, one, 0), permute.key(2, one, 0), permute.key(1, two, 0), permute.key(1, one, 1)]
    assert len(set(keys)) == 4
    assert {len(key) for key in keys} == {32}
