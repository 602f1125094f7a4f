"""Law: dealing takes every part and every example once, in the order of taking turns one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.deal import Deal, part_order, reader_parts


def turns(lengths):
    """(reader, index) by taking turns."""
    left, found, index = list(lengths), [], [0] * len(lengths)
    while any(left):
        for reader in range(len(left)):
            if left[reader]:
                found.append((reader, index[reader]))
                index[reader] += 1
                left[reader] -= 1
    return found


def takes_turns(lengths, kind=Deal):
    deal = kind(lengths)
    assert deal.length == sum(lengths)
    readers, indices = deal(np.arange(deal.length))
    assert list(zip(readers.tolist(), indices.tolist(), strict=True)) == turns(lengths)
    assert deal.inverse(readers, indices).tolist() == list(range(deal.length))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_examples(lengths):
    takes_turns(lengths)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 12))
def test_parts(counts, readers):
    files = [file for file, count in enumerate(counts) for _ in range(count)]
    firsts = np.concatenate(([0], np.cumsum(counts))).astype(int)
    order = part_order(files)
    assert order.tolist() == [int(firsts[file]) + j for file, j in turns(counts or [0])]
    dealt = reader_parts(order, readers)
    assert sorted(part for parts in dealt for part in parts.tolist()) == list(range(len(files)))
    assert all(dealt[j % readers][j // readers] == part for j, part in enumerate(order.tolist()))


def test_far_examples_come_from_arithmetic():
    lengths = [10**15 + 7 * r for r in range(1000)]
    deal = Deal(lengths)
    readers, indices = deal(np.array([0, 999, 1000, 10**18 - 1, deal.length - 1]))
    assert readers.tolist()[:3] == [0, 999, 0] and indices.tolist()[:3] == [0, 0, 1]
    assert (readers[3], indices[3]) == (999, 10**15 - 1)
    assert (readers[4], indices[4]) == (999, lengths[999] - 1)
    assert deal.inverse(readers, indices).tolist() == [0, 999, 1000, 10**18 - 1, deal.length - 1]


def test_law_kills_an_inverse_without_the_dropped_readers():
    class Whole(Deal):
        __slots__ = ()

        def _below(self, readers, active):
            return readers

    takes_turns([5, 5, 5], Whole)
    takes_turns([5, 5, 3], Whole)
    with pytest.raises(AssertionError):
        takes_turns([5, 3, 5], Whole)


def test_law_kills_a_plain_modulus():
    class Modulus(Deal):
        __slots__ = ()

        def __call__(self, examples):
            return examples % 3, examples // 3

    takes_turns([5, 5, 5], Modulus)
    with pytest.raises(AssertionError):
        takes_turns([5, 3, 5], Modulus)
