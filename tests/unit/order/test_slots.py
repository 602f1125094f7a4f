"""Slots: the 128-bit arithmetic at its borders, against plain integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.scramble import splitmix64
from dsbuild.order.slots import Slots, _quotient

M = (1 << 64) - 1
WEIGHT = st.one_of(
    st.integers(1, 5), st.sampled_from([(1 << 32) - 1, 1 << 32, (1 << 48) - 1]), st.integers(1, (1 << 48) - 1)
)
WORD = st.one_of(st.integers(0, M), st.sampled_from([0, 1, (1 << 32) - 1, 1 << 32, M - 1, M]))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1000), WORD, st.lists(WEIGHT, min_size=1, max_size=4), st.data())
def test_counts_below_a_time(hours: int, minutes: int, weights: list[int], data: st.DataObject) -> None:
    limits = [data.draw(st.one_of(st.none(), st.integers(0, 3000), st.integers(0, 1 << 60))) for _ in weights]
    phases = [data.draw(WORD) for _ in weights]
    slots = Slots(weights, phases, limits, [bytes([s]) for s in range(len(weights))])
    tick = (hours << 64) + minutes
    for s, found in enumerate(slots._before(tick).tolist()):
        k = tick * weights[s] >> 64
        phase = int(splitmix64(np.array([phases[s]], np.uint64), np.array([k], np.uint64))[0])
        exact = k + ((k << 64) + phase < tick * weights[s])
        assert found == (exact if limits[s] is None else min(exact, limits[s]))


@settings(max_examples=300, deadline=None)
@given(WEIGHT, WORD, st.data())
def test_quotients(divisor: int, low: int, data: st.DataObject) -> None:
    high = data.draw(st.one_of(st.integers(0, divisor - 1), st.just(divisor - 1)))
    arrays = (np.array([number], np.uint64) for number in (high, low, divisor))
    found = _quotient(*arrays, narrow=divisor < 1 << 32)
    assert found.tolist() == [((high << 64) + low) // divisor]


def test_refusals() -> None:
    for weights, phases, limits, ids, message in (
        ([1, 2], [1], [None, None], [b"a", b"b"], "1 phases"),
        ([1, 2], [1, 2], [None, None], [b"a", b"a"], "same id"),
        ([1], [1], [-1], [b"a"], "limit"),
        ([1 << 48], [1], [None], [b"a"], r"2\*\*48"),
        ([-1, 1], [1, 1], [None, None], [b"a", b"b"], "at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Slots(weights, phases, limits, ids)
