"""Law: different values have different canonical bytes, shown by a round trip; equal values have equal bytes."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbuild import canon

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEYS = st.one_of(TEXT, st.sampled_from(["$ratio", "$$ratio", "$", "ratio"]))
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), TEXT, st.fractions()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@given(VALUES)
def test_round_trip(value: Any) -> None:
    assert same(canon.decode(canon.encode(value)), value)


@given(st.dictionaries(KEYS, st.integers(), max_size=5), st.randoms())
def test_order_of_keys_does_not_matter(value: dict[str, int], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canon.encode(dict(items)) == canon.encode(value)


def test_mutant_without_escapes_is_not_injective() -> None:
    def mutant(value: Any) -> bytes:
        if isinstance(value, Fraction):
            return json.dumps({"$ratio": [value.numerator, value.denominator]}).encode()
        return json.dumps(value).encode()

    forged = {"$ratio": [7, 10]}
    assert mutant(forged) == mutant(Fraction(7, 10))
    assert canon.encode(forged) != canon.encode(Fraction(7, 10))


def test_mutant_with_one_two_as_text_is_found() -> None:
    with pytest.raises(AssertionError):
        assert same(canon.decode(canon.encode([1, 2])), [1, "2"])
