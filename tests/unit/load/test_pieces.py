"""Pieces against models made of lists: stretches cut at borders, records and bins of parts, in the order asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.load.pieces import Pieces, bin_pieces, by_part, cut, record_pieces, stable_order, window_pieces

SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def ints(values: Any) -> np.ndarray:
    return np.array(list(values), np.int64)


def borders_of(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes]).astype(np.int64)


def listed(pieces: Pieces) -> list[tuple[int, int, int]]:
    """(owner, part, place) of every value, in order."""
    columns = (pieces.owner, pieces.part, pieces.base, pieces.size)
    assert all(len(c) == len(pieces) for c in columns)
    assert (np.diff(pieces.owner) >= 0).all()
    return [(o, p, b + i) for o, p, b, n in zip(*(c.tolist() for c in columns), strict=True) for i in range(n)]


@st.composite
def spans(draw: Any, sizes: list[int]) -> list[tuple[int, int]]:
    """Stretches that are not empty, if there is anything."""
    total = sum(sizes)
    pair = st.tuples(st.integers(0, max(total - 1, 0)), st.integers(1, max(total, 1))).map(
        lambda p: (p[0], p[0] + p[1])
    )
    return [(a, min(b, total)) for a, b in draw(st.lists(pair, max_size=6))] if total else []


@settings(max_examples=150, deadline=None)
@given(st.data(), SIZES)
def test_cut(data: Any, sizes: list[int]) -> None:
    borders = borders_of(sizes)
    asked = data.draw(spans(sizes))
    owner, place, low, high = cut(ints(a for a, _ in asked), ints(b for _, b in asked), borders)
    expected = []
    for number, (start, stop) in enumerate(asked):
        for at, (a, b) in enumerate(zip(borders.tolist(), borders.tolist()[1:], strict=False)):
            if max(start, a) < min(stop, b):
                expected.append((number, at, max(start, a), min(stop, b)))
    assert list(zip(*(c.tolist() for c in (owner, place, low, high)), strict=True)) == expected


@given(st.lists(st.integers(0, 1 << 40), max_size=50))
def test_stable_order(keys: list[int]) -> None:
    assert stable_order(ints(keys)).tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_by_part(parts: list[int]) -> None:
    found = [(number, places.tolist()) for number, places in by_part(ints(parts))]
    assert found == [(n, [i for i, p in enumerate(parts) if p == n]) for n in sorted(set(parts))]


@settings(max_examples=80, deadline=None)
@given(st.data(), st.lists(SIZES, min_size=1, max_size=4))
def test_windows_over_runs(data: Any, parts: list[list[int]]) -> None:
    """Every second run of values is selected in part 0, 2, …; the others have all."""
    held, values = [], []
    for number, sizes in enumerate(parts):
        borders = borders_of(sizes)
        if number % 2:
            held.append(SimpleNamespace(runs=None))
            values.append(list(range(sum(sizes))))
        else:
            chosen = range(0, len(sizes), 2)
            held.append(SimpleNamespace(runs=(borders_of([sizes[i] for i in chosen]), borders[list(chosen)])))
            values.append([v for i in chosen for v in range(int(borders[i]), int(borders[i + 1]))])
    asked = [(n, *span) for n, v in enumerate(values) for span in data.draw(spans([len(v)]))]
    asked = data.draw(st.permutations(asked))
    owner, part = ints(range(len(asked))), ints(n for n, _, _ in asked)
    pieces = window_pieces(owner, part, ints(a for _, a, _ in asked), ints(b for _, _, b in asked), held.__getitem__)
    assert listed(pieces) == [(i, n, v) for i, (n, a, b) in enumerate(asked) for v in values[n][a:b]]
    assert (pieces.size > 0).all()


@settings(max_examples=80, deadline=None)
@given(st.data(), st.lists(SIZES, min_size=1, max_size=4), st.integers(1, 5))
def test_records_and_bins(data: Any, parts: list[list[int]], most: int) -> None:
    bins = [
        data.draw(st.lists(st.lists(st.integers(0, len(s) - 1), min_size=1, max_size=3), max_size=4)) for s in parts
    ]
    held: list[Any] = []
    for sizes, mine in zip(parts, bins, strict=True):
        columns = (ints(row for b in mine for row in b), borders_of([len(b) for b in mine]))
        held.append(
            SimpleNamespace(
                offsets=lambda name, sizes=sizes: borders_of(sizes), bins=SimpleNamespace(column=lambda n, c=columns: c)
            )
        )

    def values(part: int, row: int) -> list[int]:
        first = int(borders_of(parts[part])[row])
        return list(range(first, first + min(parts[part][row], most)))

    rows = data.draw(st.permutations([(n, row) for n, sizes in enumerate(parts) for row in range(len(sizes))]))
    pieces = record_pieces(ints(n for n, _ in rows), ints(r for _, r in rows), most, held.__getitem__)
    assert len(pieces) == len(rows)  # a record without values is an empty piece
    assert listed(pieces) == [(i, n, v) for i, (n, r) in enumerate(rows) for v in values(n, r)]
    asked = data.draw(st.permutations([(n, b) for n, mine in enumerate(bins) for b in range(len(mine))]))
    pieces = bin_pieces(ints(n for n, _ in asked), ints(b for _, b in asked), most, held.__getitem__)
    assert listed(pieces) == [(i, n, v) for i, (n, b) in enumerate(asked) for r in bins[n][b] for v in values(n, r)]
