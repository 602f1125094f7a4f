"""Law: splits share no record; fractions of sum 1 leave none out; an added record moves no other between fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order import split
from dsbuild.order.split import Range, ranges

M = (1 << 64) - 1
KEYS = st.lists(st.one_of(st.integers(0, M), st.integers(0, 3), st.just(M)), min_size=1, max_size=60)
NAMES = st.lists(st.sampled_from(["train", "valid", "test", "Z", "a", "é"]), min_size=1, max_size=4, unique=True)


@st.composite
def fractions(draw):
    names = draw(NAMES)
    shares = [draw(st.integers(1, 9)) for _ in names]
    rest = draw(st.integers(0, 5))
    return {name: Fraction(share, sum(shares) + rest) for name, share in zip(names, shares, strict=True)}, rest == 0


def parts_the_records(spec, keys, whole, make=ranges):
    keys = np.array(keys, np.uint64)
    chosen = sum(found.choose(keys).astype(int) for found in make(spec, keys).values())
    assert chosen.max() <= 1
    assert not whole or chosen.min() == 1


@settings(max_examples=200, deadline=None)
@given(fractions(), KEYS)
def test_fractions(drawn, keys):
    parts_the_records(drawn[0], keys, drawn[1])


@settings(max_examples=200, deadline=None)
@given(fractions(), KEYS, st.data())
def test_an_added_record_moves_no_other(drawn, keys, data):
    spec = drawn[0]
    at = data.draw(st.integers(0, len(keys)))
    grown = [*keys[:at], data.draw(st.integers(0, M)), *keys[at:]]
    for name, found in ranges(spec).items():
        before = found.choose(np.array(keys, np.uint64)).tolist()
        after = ranges(spec)[name].choose(np.array(grown, np.uint64)).tolist()
        assert after[:at] + after[at + 1 :] == before


@settings(max_examples=200, deadline=None)
@given(KEYS, st.data())
def test_counts_are_the_lowest_keys_ties_by_row(keys, data):
    first = data.draw(st.integers(1, len(keys)))
    second = data.draw(st.integers(0, len(keys) - first))
    spec = {"b": first} | ({"c": second} if second else {}) | {"a": Fraction(1)}
    found = ranges(spec, np.array(keys, np.uint64))
    order = sorted(range(len(keys)), key=lambda row: (keys[row], row))
    expected = {"b": order[:first], "a": order[first + second :]} | (
        {"c": order[first : first + second]} if second else {}
    )
    border = data.draw(st.integers(0, len(keys)))  # the parts of a source are asked one by one
    for name, rows in expected.items():
        parts = [
            found[name].choose(np.array(keys[:border], np.uint64)),
            found[name].choose(np.array(keys[border:], np.uint64), border),
        ]
        assert np.flatnonzero(np.concatenate(parts)).tolist() == sorted(rows)
    parts_the_records(spec, keys, True)


def test_law_kills_borders_in_both(monkeypatch):
    def both(spec, keys):
        return {n: Range(low=r.low, high=(min(r.high[0] + 1, 1 << 64), 0)) for n, r in ranges(spec, keys).items()}

    spec, keys = {"a": Fraction(1, 2), "b": Fraction(1, 2)}, [0, 1 << 63, M]
    parts_the_records(spec, keys, True)
    with pytest.raises(AssertionError):
        parts_the_records(spec, keys, True, both)


def test_law_kills_borders_of_floats(monkeypatch):
    spec, keys = {"a": Fraction(1, 3), "b": Fraction(2, 3)}, [0, (1 << 64) // 3, M]
    monkeypatch.setattr(split, "_border", lambda share: min(int(float(share) * 2.0**64), M))
    with pytest.raises(AssertionError):
        parts_the_records(spec, keys, True)


def test_law_kills_counts_without_ties():
    def loose(spec, keys):
        return {n: Range(low=(r.low[0], 0), high=(r.high[0] + 1, 0)) for n, r in ranges(spec, keys).items()}

    with pytest.raises(AssertionError):
        parts_the_records({"a": 2, "b": 2}, [5, 5, 5, 5], True, loose)
