"""Packing: counts and spans at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from dsbuild.order.pack import concat_count, concat_spans, none_count, none_spans


def test_concat_counts() -> None:
    assert [concat_count(tokens, 4) for tokens in (0, 1, 2, 5, 6, 9, 10)] == [0, 0, 1, 1, 2, 2, 3]


def test_concat_spans() -> None:
    starts, stops = concat_spans(10, 4, np.array([2, 0, 1]))
    assert (starts.tolist(), stops.tolist()) == ([8, 0, 4], [10, 5, 9])
    assert concat_spans(0, 4, np.array([], np.int64))[0].tolist() == []


def test_none() -> None:
    offsets = np.array([0, 3, 3, 8])
    assert none_count(offsets) == 3
    starts, stops = none_spans(offsets, np.array([2, 1]))
    assert (starts.tolist(), stops.tolist()) == ([3, 3], [8, 3])


def test_refusals() -> None:
    with pytest.raises(ValueError, match="examples of 0"):
        concat_count(5, 0)
    with pytest.raises(IndexError, match="of 3"):
        concat_spans(10, 4, np.array([3]))
    with pytest.raises(IndexError, match="of 3"):
        none_spans(np.array([0, 3, 3, 8]), np.array([-1]))
