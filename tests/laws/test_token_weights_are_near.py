"""Law: weights of measured ratios are exact where they can be, else within their bound, and within the limits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.weights import MOST_TOTAL, check_weights, integer_weights, token_weights

MEASURED = st.builds(
    lambda ratio, examples, tokens: Fraction(ratio, 100) * Fraction(examples, tokens),
    st.integers(1, 10_000),
    st.integers(1, 10**9),
    st.integers(1, 10**13),
)
RATIOS = st.lists(st.one_of(MEASURED, st.just(Fraction(0)), st.fractions(0, 1, max_denominator=9)), min_size=1).filter(
    any
)


def near(ratios, find=token_weights):
    found = find(ratios)
    check_weights(found)
    try:
        exact = integer_weights(ratios)
    except ValueError:
        greatest = max(ratios)
        assert (1 << 46) in found or sum(found) * 2 >= MOST_TOTAL - 2 * len(found)
        unit = Fraction(max(found))  # the weight of the greatest ratio is not rounded
        for weight, ratio in zip(found, ratios, strict=True):
            off = abs(weight - ratio / greatest * unit)
            assert (weight > 0) == (ratio > 0)
            assert off <= Fraction(1, 2) or (weight == 1 and off < 1)
    else:
        assert found == exact


@settings(max_examples=300, deadline=None)
@given(RATIOS)
def test_any_ratios(ratios):
    near(ratios)


@settings(max_examples=100, deadline=None)
@given(RATIOS, MEASURED)
def test_common_factors_change_nothing(ratios, factor):
    assert token_weights(ratios) == token_weights([ratio * factor for ratio in ratios])


MANY = [1 - Fraction(s, 3**40) for s in range(2000)]


def test_many_sources():
    near(MANY)
    assert max(token_weights(MANY)) == 1 << 45 and sum(token_weights(MANY)) < MOST_TOTAL


AWKWARD = [Fraction(1, 3**40), Fraction(2, 7**20), Fraction(1), Fraction(0)]


def test_law_kills_rounding_down():
    near(AWKWARD)
    with pytest.raises(AssertionError):
        near(AWKWARD, lambda ratios: [int(ratio / max(ratios) * (1 << 46)) for ratio in ratios])


def test_law_kills_floats():
    ratios = [Fraction(1, 3), Fraction(1, 7), Fraction(1, 1 << 46)]
    near(ratios)
    with pytest.raises(AssertionError):
        near(ratios, lambda ratios: [max(1, round(float(ratio) * (1 << 46))) for ratio in ratios])


def test_law_kills_a_sum_beyond_the_limit():
    with pytest.raises(ValueError, match=r"2\*\*56"):
        near(MANY, lambda ratios: [round(ratio * (1 << 46)) for ratio in ratios])
