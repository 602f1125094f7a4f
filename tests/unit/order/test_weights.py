"""Weights: the least integers in exact proportion, and their limits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbuild.order.weights import integer_weights, token_weights


def test_equal_ratios_are_equal_integers() -> None:
    assert integer_weights([Fraction(7), Fraction(2), Fraction(1)]) == [7, 2, 1]
    assert integer_weights([Fraction("0.7"), Fraction("0.2"), Fraction("0.1")]) == [7, 2, 1]
    assert integer_weights([Fraction(14, 3), Fraction(4, 3), Fraction(2, 3)]) == [7, 2, 1]
    assert integer_weights([Fraction(0), Fraction(1, 9)]) == [0, 1]


@given(st.lists(st.fractions(0, 100, max_denominator=50), min_size=1, max_size=5).filter(any))
def test_proportions_are_exact(ratios: list[Fraction]) -> None:
    found = integer_weights(ratios)
    assert all(a * ratios[0] == b * found[0] for a, b in zip(found, ratios, strict=True))
    assert all(a * y == b * x for a, x in zip(found, ratios, strict=True) for b, y in zip(found, ratios, strict=True))


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ([Fraction(-1), Fraction(2)], "at least 0"),
        ([Fraction(0)], "no weight above 0"),
        ([], "no weight above 0"),
        ([Fraction(1 << 48), Fraction(1)], r"2\*\*48"),
        ([Fraction(1), Fraction(1, 1 << 48)], r"2\*\*48"),
        ([Fraction((1 << 48) - 1 - s) for s in range(300)], r"2\*\*56"),
    ],
)
def test_refusals(ratios: list[Fraction], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        integer_weights(ratios)


def test_measured_weights_are_exact_where_they_fit() -> None:
    assert token_weights([Fraction("0.7"), Fraction("0.2"), Fraction("0.1"), Fraction(0)]) == [7, 2, 1, 0]
    assert token_weights([Fraction((1 << 48) - 1), Fraction(1)]) == [(1 << 48) - 1, 1]
    assert token_weights([Fraction(1 << 48), Fraction(1)]) == [1 << 46, 1]  # 1/4 before rounding
    assert token_weights([Fraction(3, 10**9) * Fraction(10**6, 123_457)]) == [1]


def test_measured_weights_round_half_to_even() -> None:
    unit = Fraction(1, 1 << 47)  # half of a weight
    assert token_weights([Fraction(1), 3 * unit, 5 * unit, 6 * unit, Fraction(1, 3**33)]) == [1 << 46, 2, 2, 3, 1]


def test_measured_weights_of_many_sources() -> None:
    odd = [Fraction(1, prime) for prime in range(10**6 + 1, 10**6 + 20_001, 2)]
    found = token_weights(odd)  # at once, though the LCM has some 200,000 bits
    assert max(found) == 1 << 42 and (1 << 55) <= sum(found) < 1 << 56


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ([Fraction(-1), Fraction(2)], "at least 0"),
        ([Fraction(-1)], "at least 0"),
        ([Fraction(0)], "no weight"),
        ([], "no weight"),
    ],
)
def test_measured_refusals(ratios: list[Fraction], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_weights(ratios)
