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
