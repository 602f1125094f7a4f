"""Law: the examples that are found for a span of tokens are those whose windows have any of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.pack import concat_count, concat_examples, concat_spans


def meet(tokens, length, start, stop, find=concat_examples):
    count = concat_count(tokens, length)
    lows, highs = concat_spans(tokens, length, np.arange(count))
    wanted = [i for i in range(count) if max(lows[i], start) < min(highs[i], stop)]
    first, last = find(tokens, length, start, stop)
    assert list(range(first, last)) == wanted
    assert 0 <= first <= last <= count


@settings(max_examples=300)
@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_any_span(tokens, length, data):
    start = data.draw(st.integers(0, tokens))
    meet(tokens, length, start, data.draw(st.integers(start, tokens)))


def every_span(find):
    for tokens in range(14):
        for start in range(tokens + 1):
            for stop in range(start, tokens + 1):
                meet(tokens, 4, start, stop, find)


def test_every_small_span():
    every_span(concat_examples)


def test_law_kills_windows_without_their_last_target():
    with pytest.raises(AssertionError):
        every_span(lambda tokens, length, start, stop: (start // length, -(-stop // length)))
