"""Law: a window of a block order has the examples of its blocks, no others; a full era has its own, whatever n is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.block import BlockPermutation
from dsbuild.order.era import EraPermutation
from dsbuild.order.permute import Permutation


def reads_its_blocks(n, block, window, kind=BlockPermutation):
    """Also: windows follow each other without a gap, so that reading goes through ``window`` blocks at a time."""
    found = kind(b"k", n, block, window)(np.arange(n))
    examples = [list(range(start, min(start + block, n))) for start in range(0, n, block)]
    order = Permutation(b"k block", len(examples))(np.arange(len(examples))).tolist()
    start = 0
    for first in range(0, len(order), window):
        expected = [example for number in order[first : first + window] for example in examples[number]]
        assert sorted(found[start : start + len(expected)].tolist()) == sorted(expected)
        start += len(expected)
    assert start == n


def test_all_small_blocks():
    for n in range(1, 40):
        for block in (1, 2, 3, 7, 50):
            for window in (1, 2, 3, 50):
                reads_its_blocks(n, block, window)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20_000), st.integers(1, 500), st.integers(1, 50))
def test_any_blocks(n, block, window):
    reads_its_blocks(n, block, window)


def test_law_kills_an_order_that_reads_everywhere():
    with pytest.raises(AssertionError):
        reads_its_blocks(100, 5, 4, lambda key, n, block, window: Permutation(key, n))


def test_law_kills_windows_of_equal_length():
    class Equal(BlockPermutation):
        """Windows of w b positions each, also behind the short block."""

        __slots__ = ()

        def __call__(self, positions):
            blocks = self._order(np.arange(-(-self.n // self._block)))
            examples = np.concatenate([np.arange(b * self._block, min((b + 1) * self._block, self.n)) for b in blocks])
            return examples[EraPermutation(b"k", self.n, self._span)(positions)]

    reads_its_blocks(100, 5, 4, Equal)
    with pytest.raises(AssertionError):
        for n in (98, 118, 138, 158):  # in one of them the short block lands before the last window
            reads_its_blocks(n, 5, 4, Equal)


def does_not_know_n(era, low, high, kind=EraPermutation):
    """What is read of the full eras of ``low`` examples while building is what is read of ``high`` once built."""
    full = np.arange(low // era * era)
    found = kind(b"k", low, era)(full)
    assert np.array_equal(found, kind(b"k", high, era)(full))
    assert np.array_equal(found // era, full // era)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.integers(1, 100), st.integers(1, 6000)), st.integers(0, 20_000), st.integers(0, 1 << 47))
def test_full_eras(era, low, more):
    does_not_know_n(era, low, low + more)


def test_law_kills_a_key_of_n():
    with pytest.raises(AssertionError):
        does_not_know_n(10, 100, 105, lambda key, n, era: EraPermutation(key + b"%d" % n, n, era))


def test_law_kills_full_shuffles():
    with pytest.raises(AssertionError):
        does_not_know_n(10, 100, 100, lambda key, n, era: Permutation(key, n))
