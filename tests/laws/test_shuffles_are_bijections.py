"""Law: block and era orders take every index once, at any sizes, one by one as in blocks; their inverses undo them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.digest import Domain, of_bytes
from dsbuild.order import permute
from dsbuild.order.block import BlockPermutation
from dsbuild.order.era import EraPermutation
from dsbuild.order.shuffle import order_of


def takes_each_once(order):
    positions = np.arange(order.n)
    found = order(positions)
    assert np.array_equal(np.sort(found), positions)
    assert np.array_equal(order.inverse(found), positions)


def test_all_small_sizes():
    for n in range(28):
        for block in range(1, 9):
            for window in (1, 2, 3, 9):
                takes_each_once(BlockPermutation(b"small", n, block, window))
        for era in range(1, 31):
            takes_each_once(EraPermutation(b"small", n, era))


SHUFFLES = st.one_of(
    st.fixed_dictionaries({"era": st.integers(1, 10_000)}),
    st.fixed_dictionaries({"block": st.integers(1, 300), "window": st.integers(1, 300)}),
)


@settings(max_examples=60, deadline=None)
@given(SHUFFLES, st.integers(0, 30_000), st.binary(max_size=40))
def test_any_sizes(shuffle, n, key):
    takes_each_once(order_of(shuffle, key, n))


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(
        st.fixed_dictionaries({"era": st.integers(1, 1 << 48)}),
        st.fixed_dictionaries({"block": st.integers(1, 1 << 48), "window": st.integers(1, 1 << 48)}),
        st.fixed_dictionaries({"block": st.integers(1, 1 << 20), "window": st.integers(1, 1 << 20)}),
        SHUFFLES,
    ),
    st.integers(1, 1 << 48),
    st.binary(max_size=40),
    st.data(),
)
def test_far_positions_come_back(shuffle, n, key, data):
    far = st.one_of(st.integers(0, n - 1), st.integers(max(0, n - 9), n - 1))
    positions = np.array(data.draw(st.lists(far, min_size=1, max_size=20)))
    order = order_of(shuffle, key, n)
    found = order(positions)
    assert found.min() >= 0 and found.max() < n
    assert np.array_equal(order.inverse(found), positions)
    assert [int(order(positions[at : at + 1])[0]) for at in range(len(positions))] == found.tolist()


def test_law_kills_a_short_block_that_is_taken_for_a_full_one():
    class Filled(BlockPermutation):
        __slots__ = ()

        def _slots(self, positions):
            return positions

    takes_each_once(Filled(b"k", 60, 6, 3))  # the last block is full
    with pytest.raises((AssertionError, IndexError)):
        takes_each_once(Filled(b"k", 59, 6, 3))


def test_law_kills_a_last_era_as_long_as_the_others():
    class Long(EraPermutation):
        __slots__ = ()

        def __init__(self, key, n, era):
            super().__init__(key, n, era)
            self._within._others = ()

    takes_each_once(Long(b"k", 60, 6))
    with pytest.raises((AssertionError, IndexError)):
        takes_each_once(Long(b"k", 63, 6))


def no_order_twice(shuffle, key=permute.key):
    """No epoch of a seed has the order of another epoch or seed."""
    source = of_bytes(Domain.FILE, b"source")
    keys = [key(seed, source, epoch) for seed in range(8) for epoch in range(8)]
    assert len({order_of(shuffle, each, 200)(np.arange(200)).tobytes() for each in keys}) == 64


@pytest.mark.parametrize("shuffle", ["full", {"block": 10, "window": 4}, {"block": 1, "window": 20}, {"era": 40}])
def test_epochs_differ(shuffle):
    no_order_twice(shuffle)
    with pytest.raises(AssertionError):
        no_order_twice(shuffle, lambda seed, source, epoch: permute.key(seed + epoch, source, 0))


def test_law_kills_no_shuffle():
    with pytest.raises(AssertionError):
        no_order_twice("none")
