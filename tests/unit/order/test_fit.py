"""Fit: its edges and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from dsbuild.order.fit import each, fit


def lists(packed: tuple[np.ndarray, np.ndarray]) -> tuple[list[int], list[int]]:
    return packed[0].tolist(), packed[1].tolist()


def test_nothing() -> None:
    for pack in (fit, each):
        assert lists(pack([], 10)) == ([0], [])
    assert lists(fit([0, 0], 10)) == ([0], [])
    assert lists(each([0, 11, 0], 10)) == ([0, 1, 2], [0, 2])


def test_longest_first_into_the_least_room() -> None:
    # 7 opens a bin with room 3, 6 one with room 4; 4 fills the latter, 3 the former, 2 and 1 share a third
    assert lists(fit([1, 2, 3, 4, 6, 7], 10)) == ([0, 2, 4, 6], [0, 1, 2, 5, 3, 4])


def test_among_equal_rooms_the_bin_changed_last() -> None:
    assert lists(fit([6, 6, 4, 3], 10)) == ([0, 2, 4], [0, 3, 1, 2])


def test_one_record_may_fill_a_bin() -> None:
    assert lists(fit([1, 1, 1], 1)) == ([0, 1, 2, 3], [0, 1, 2])
    assert lists(fit(np.array([10, 1, 9], np.uint32), 10)) == ([0, 1, 3], [0, 1, 2])


def test_refusals() -> None:
    with pytest.raises(ValueError, match="record 2 is 11 long: a bin holds 10"):
        fit([1, 10, 11, 12], 10)
    for pack in (fit, each):
        with pytest.raises(ValueError, match="lengths from -1"):
            pack([3, -1], 10)
        with pytest.raises(ValueError, match="bins of 0"):
            pack([], 0)
