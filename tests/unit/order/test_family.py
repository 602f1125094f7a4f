"""Families: one network or table for each number, whatever was asked before, by any thread."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dsbuild.order import family
from dsbuild.order.family import Family, Uneven


def one(key: bytes, n: int, number: int) -> list[int]:
    """The order of one number, by a fresh family."""
    return Family(key, n)(np.full(n, number), np.arange(n)).tolist()


@pytest.mark.parametrize("n", [1, 2, 7, 100, 4096, 4097, 5000])
def test_numbers_do_not_matter_to_each_other(n: int) -> None:
    numbers = np.repeat([5, 0, 10**14, 3], n)
    many = Family(b"k", n)
    found = many(numbers, np.tile(np.arange(n), 4)).reshape(4, n)
    assert found.tolist() == [one(b"k", n, number) for number in (5, 0, 10**14, 3)]
    assert np.array_equal(np.sort(found, axis=1), np.tile(np.arange(n), (4, 1)))
    assert np.array_equal(many.inverse(numbers, found.reshape(-1)), np.tile(np.arange(n), 4))


def test_numbers_and_keys_have_other_orders() -> None:
    assert len({tuple(one(key, 50, number)) for key in (b"k", b"l") for number in range(20)}) == 40


@pytest.mark.parametrize("held", [1, 50, 320, 5000])
def test_kept_tables_decide_nothing(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    random = np.random.default_rng(1)
    calls = [(random.integers(0, 40, 300), random.integers(0, 32, 300)) for _ in range(10)]
    fresh = [Family(b"k", 32)(*call).tolist() for call in calls]
    monkeypatch.setattr(family, "_HELD", held)
    kept = Family(b"k", 32)
    for call, expected in zip(calls, fresh, strict=True):
        assert kept(*call).tolist() == expected
        assert kept._held[1].size <= max(held, 32)
        assert kept.inverse(call[0], np.array(expected)).tolist() == call[1].tolist()


def test_threads_get_the_same() -> None:
    shared = Family(b"k", 600)
    calls = [np.arange(start, start + 3000) for start in range(0, 600_000, 3000)]
    fresh = [Family(b"k", 600)(call // 600, call % 600) for call in calls]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda call: shared(call // 600, call % 600), calls))
    assert all(np.array_equal(a, b) for a, b in zip(found, fresh, strict=True))


def test_pickles_without_its_tables() -> None:
    used = Family(b"k", 4096)
    numbers, positions = np.arange(20), np.arange(20)
    found = used(numbers, positions)
    data = pickle.dumps(used)
    assert len(data) < 200
    assert pickle.loads(data)(numbers, positions).tolist() == found.tolist()


def test_none_asked() -> None:
    nothing = np.empty(0, np.int64)
    assert Family(b"k", 0)(nothing, nothing).tolist() == []
    assert Family(b"k", 10)(nothing, nothing).tolist() == []
    with pytest.raises(ValueError, match=r"2\*\*48"):
        Family(b"k", (1 << 48) + 1)


def test_uneven_sizes() -> None:
    uneven = Uneven(b"k", 10, {2: 4, 5: 10})
    numbers = np.repeat([0, 1, 2, 5], [10, 10, 4, 10])
    positions = np.concatenate([np.arange(10), np.arange(10), np.arange(4), np.arange(10)])
    found = uneven(numbers, positions)
    assert found[20:24].tolist() == one(b"k", 4, 2)
    assert found[24:].tolist() == one(b"k", 10, 5)
    assert uneven.inverse(numbers, found).tolist() == positions.tolist()
