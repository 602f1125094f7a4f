"""Law: a permutation takes every index once, at any n and key, one by one as in blocks; its inverse undoes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.digest import Domain, of_bytes
from dsbuild.order import permute
from dsbuild.order.network import Network
from dsbuild.order.permute import Permutation


def takes_each_once(order, n):
    positions = np.arange(n)
    found = order(positions)
    assert np.array_equal(np.sort(found), positions)
    assert np.array_equal(order.inverse(found), positions)


def test_all_small_n():
    for n in range(400):
        takes_each_once(Permutation(b"small", n), n)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.integers(4000, 30_000),
        st.builds(lambda k, d: k * k + d, st.integers(65, 170), st.integers(-2, 2)),
        st.builds(lambda k, d: k * (k + 1) + d, st.integers(65, 170), st.integers(-2, 2)),
    ),
    st.binary(max_size=40),
)
def test_any_n(n, key):
    takes_each_once(Permutation(key, n), n)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 1 << 48), st.binary(max_size=40), st.data())
def test_far_positions_come_back(n, key, data):
    positions = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20)))
    order = Permutation(key, n)
    found = order(positions)
    assert found.min() >= 0 and found.max() < n
    assert np.array_equal(order.inverse(found), positions)
    assert [int(order(positions[at : at + 1])[0]) for at in range(len(positions))] == found.tolist()


def test_law_kills_a_missing_walk():
    class Folded(Network):
        __slots__ = ()

        def walk(self, values, words, *, forward):
            return (self._forward if forward else self._backward)(values, words) % np.uint64(self.n)

    def folded(n):
        order = Permutation(b"", n)
        order._network = Folded(n)
        return order

    takes_each_once(folded(128 * 128), 128 * 128)  # no excess here: nothing to walk
    with pytest.raises(AssertionError):
        takes_each_once(folded(128 * 128 + 1), 128 * 128 + 1)


def no_order_twice(key):
    """No epoch of a seed has the order of another epoch or seed."""
    source = of_bytes(Domain.FILE, b"source")
    orders = {
        tuple(Permutation(key(seed, source, epoch), 50)(np.arange(50))) for seed in range(8) for epoch in range(8)
    }
    assert len(orders) == 64


def test_epochs_differ():
    no_order_twice(permute.key)


def test_law_kills_seed_plus_epoch():
    with pytest.raises(AssertionError):
        no_order_twice(lambda seed, source, epoch: permute.key(seed + epoch, source, 0))
