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
    assert len(dealt) == max(min(readers, len(order)), 1)


def without_the_idle(order, sizes, readers, dealing=reader_parts):
    """Leaving out readers without parts changes no example: (part, place in it) of each, against all R readers."""

    def examples(dealt):
        places = [[(part, at) for part in parts for at in range(sizes[part])] for parts in dealt]
        owners, indices = Deal([len(p) for p in places])(np.arange(sum(map(len, places))))
        return [places[owner][index] for owner, index in zip(owners.tolist(), indices.tolist(), strict=True)]

    every = [order[reader::readers].tolist() for reader in range(readers)]
    assert examples([parts.tolist() for parts in dealing(order, readers)]) == examples(every)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=12), st.integers(1, 40))
def test_idle_readers(sizes, readers):
    without_the_idle(np.arange(len(sizes)), sizes, readers)


def test_a_million_readers_of_few_parts_cost_nothing():
    assert [parts.tolist() for parts in reader_parts(np.arange(3), 1 << 40)] == [[0], [1], [2]]


def test_law_kills_fewer_readers_than_parts():
    def halved(order, readers):
        return reader_parts(order, max(min(readers, len(order) // 2), 1))

    without_the_idle(np.arange(2), [1, 1], 1, halved)
    with pytest.raises(AssertionError):
        without_the_idle(np.arange(4), [2, 2, 2, 2], 9, halved)


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
