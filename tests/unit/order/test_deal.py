"""Dealing: by example, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from dsbuild.order.deal import Deal, part_order, reader_parts


def test_parts_go_round_the_files() -> None:
    order = part_order([0, 0, 0, 1, 2, 2])
    assert order.tolist() == [0, 3, 4, 1, 5, 2]
    assert [parts.tolist() for parts in reader_parts(order, 4)] == [[0, 5], [3, 2], [4], [1]]
    assert part_order([]).tolist() == []


def test_examples_go_round_the_readers() -> None:
    readers, indices = Deal([2, 0, 3])(np.arange(5))
    assert readers.tolist() == [0, 2, 0, 2, 2]
    assert indices.tolist() == [0, 0, 1, 1, 2]


def test_no_examples() -> None:
    deal = Deal([0, 0])
    assert deal.length == 0
    assert deal(np.array([], np.int64))[0].tolist() == []


def test_refusals() -> None:
    with pytest.raises(ValueError, match="order of their files"):
        part_order([1, 0])
    with pytest.raises(ValueError, match="interleave 0"):
        reader_parts(np.arange(3), 0)
    for lengths in ([], [1, -1]):
        with pytest.raises(ValueError, match="readers"):
            Deal(lengths)
    with pytest.raises(IndexError, match="of 5"):
        Deal([2, 3])(np.array([5]))


def test_back_to_examples() -> None:
    deal = Deal([2, 0, 3])
    assert deal.inverse(np.array([[2, 0], [2, 0]], np.uint8), np.array([[2, 1], [0, 0]])).tolist() == [[4, 2], [1, 0]]
    for empty in (deal, Deal([0, 0])):
        assert empty.inverse(np.array([], np.int64), np.array([], np.int64)).tolist() == []
    for reader, index, message in ((0, 2, "reader 0, which has 2"), (1, 0, "which has 0"), (2, -1, "example -1 of")):
        with pytest.raises(IndexError, match=message):
            deal.inverse(np.array([2, reader]), np.array([0, index]))
    for reader in (-1, 3):
        with pytest.raises(IndexError, match="of 3"):
            deal.inverse(np.array([reader]), np.array([0]))
