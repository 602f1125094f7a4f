"""Law: the examples of concatenated tokens predict every token but the first exactly once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbuild.order.pack import concat_count, concat_spans


def keeps_targets(tokens, length, spans=concat_spans, count=concat_count):
    starts, stops = spans(tokens, length, np.arange(count(tokens, length)))
    targets = [at for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) for at in range(start + 1, stop)]
    assert targets == list(range(1, tokens))
    assert all(stop - start == length + 1 for start, stop in zip(starts[:-1], stops[:-1], strict=True))


@given(st.integers(0, 300), st.integers(1, 40))
def test_targets(tokens, length):
    keeps_targets(tokens, length)


def test_law_kills_windows_without_an_overlap():
    def apart(tokens, length, examples):
        return examples * length, np.minimum(examples * length + length, tokens)

    with pytest.raises(AssertionError):
        keeps_targets(100, 10, apart)


def test_law_kills_a_dropped_rest():
    with pytest.raises(AssertionError):
        keeps_targets(105, 10, count=lambda tokens, length: (tokens - 1) // length)
