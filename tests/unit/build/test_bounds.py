"""Bounds of counts found in two passes are those of the whole order, however keys repeat and blocks are cut."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dsbuild.build.bounds import count_bounds, range_of, rank
from dsbuild.order import split

DRAWS: dict[str, Any] = {
    "spread": lambda r, n: r.integers(0, 1 << 64, n, np.uint64),
    "few": lambda r, n: r.choice(r.integers(0, 1 << 64, 5, np.uint64), n),
    "one bucket": lambda r, n: r.integers(0, 40, n, np.uint64) + np.uint64(7 << 48),
    "one key": lambda r, n: np.full(n, (1 << 64) - 1, np.uint64),
    "ends": lambda r, n: r.choice(np.array([0, 1, 1 << 48, (1 << 48) - 1, (1 << 64) - 1], np.uint64), n),
    "no key": lambda r, n: np.zeros(n, np.uint64),
}


def cut(keys: np.ndarray, size: int) -> Any:
    def blocks() -> Iterator[np.ndarray]:
        for at in range(0, len(keys), size):
            yield keys[at : at + size]

    return blocks


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_equal_to_the_definition(draw: str, size: int) -> None:
    random = np.random.default_rng(size)
    for records in (1, 2, 9, 60):
        keys = DRAWS[draw](random, records)
        sums = random.integers(1, records + 1, 3)
        for counts in ({"b": int(sums[0])}, {"b": 1, "a": int(sums[1] - 1)}, {"a": 1, "c": 2, "b": int(sums[2] - 3)}):
            if min(counts.values()) < 1:
                continue
            table: dict[str, Fraction | int] = {**counts, "d": Fraction(1, 3), "e": Fraction(2, 3)}
            expected = split.ranges(table, keys)
            shares = {"d": Fraction(1, 3), "e": Fraction(2, 3)}
            for name, whole in expected.items():
                found = range_of(name, counts, shares, cut(keys, size))
                assert found.choose(keys).tolist() == whole.choose(keys).tolist()
                for bound in (found.low, found.high):  # a row is given only where keys alone do not say it
                    assert bound[1] == 0 or (keys[: bound[1]] == np.uint64(bound[0])).any()


def test_passes_over_the_keys() -> None:
    keys = np.arange(100, dtype=np.uint64) << np.uint64(50)
    seen = []

    def blocks() -> Iterator[np.ndarray]:
        seen.append(1)
        yield from cut(keys, 10)()

    assert count_bounds(blocks, [30, 100]) == [(30 << 50, 0), (1 << 64, 0)]
    assert len(seen) == 2
    keys = np.zeros(100, np.uint64)
    assert count_bounds(blocks, [30]) == [(0, 30)]
    assert len(seen) == 5  # the row of a tie costs one more


def test_repeated_keys_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsbuild.build import bounds

    monkeypatch.setattr(bounds, "_HELD", 16)
    keys = np.tile(np.array([5, 6, 6, 7], np.uint64), 500)
    assert count_bounds(cut(keys, 8), [501, 1500]) == [(6, split_row(keys, 6, 1)), (7, 0)]


def split_row(keys: np.ndarray, key: int, number: int) -> int:
    return int(np.flatnonzero(keys == np.uint64(key))[number])


def test_more_counts_than_records() -> None:
    with pytest.raises(ValueError, match="7 of 4 records"):
        count_bounds(cut(np.zeros(4, np.uint64), 4), [7])


def test_ranks_add_up() -> None:
    keys = np.random.default_rng(1).integers(0, 6, 50).astype(np.uint64)
    whole = split.ranges({"a": 23}, keys)["a"]
    assert sum(rank(keys[at : at + 8], at, whole.high) for at in range(0, 50, 8)) == 23
    assert rank(keys, 0, (1 << 64, 0)) == 50
