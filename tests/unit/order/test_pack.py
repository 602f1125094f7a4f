"""Packing: counts and spans at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from dsbuild.order.pack import concat_count, concat_examples, concat_spans, none_count, none_spans


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


def test_examples_of_tokens() -> None:
    assert concat_examples(10, 4, 0, 10) == (0, 3)
    assert concat_examples(10, 4, 4, 5) == (0, 2)  # a border: a target of one, an input of the next
    assert concat_examples(10, 4, 5, 8) == (1, 2)
    assert concat_examples(9, 4, 8, 9) == (1, 2)  # the last target only
    assert concat_examples(1, 4, 0, 1) == (0, 0)  # no example has it
    first, last = concat_examples(10, 4, 7, 7)
    assert first == last
    for start, stop in ((-1, 2), (3, 2), (0, 11)):
        with pytest.raises(IndexError, match="of 10"):
            concat_examples(10, 4, start, stop)
    with pytest.raises(ValueError, match="examples of 0"):
        concat_examples(10, 0, 0, 1)
