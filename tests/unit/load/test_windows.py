"""Windows of memory: the values that are there, whatever lies between."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.load.windows import Windows

DTYPES = ["uint8", "uint16", "int32", "int64", "float32"]


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(DTYPES),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.booleans()), min_size=1, max_size=20),
)
def test_rows(dtype: str, length: int, asked: list[tuple[int, int, bool]]) -> None:
    """Windows of three arrays that lie anywhere; rows that are not there have any address."""
    held = [np.random.default_rng(n).integers(0, 100, 50).astype(dtype) for n in range(3)]
    size = held[0].itemsize
    addresses = np.array([address(held[a]) + at * size if there else a for a, at, there in asked], np.int64)
    there = np.array([t for _, _, t in asked], bool)
    found = Windows(addresses, there, length, np.dtype(dtype))
    assert found.missing == np.flatnonzero(~there).tolist()
    rows = found.rows(0, len(asked))
    assert rows.shape == (len(asked), length) and rows.dtype == np.dtype(dtype)
    for row, (array, at, known) in enumerate(asked):
        if known:
            assert rows[row].tolist() == held[array][at : at + length].tolist()
    middle = found.rows(len(asked) // 2, len(asked))
    assert (middle[there[len(asked) // 2 :]] == rows[len(asked) // 2 :][there[len(asked) // 2 :]]).all()


def test_rows_are_copies() -> None:
    held = np.arange(10, dtype=np.uint16)
    found = Windows(np.array([address(held)]), np.array([True]), 4, held.dtype)
    rows = found.rows(0, 1)
    rows[0, 0] = 99
    assert held[0] == 0 and found.rows(0, 1)[0, 0] == 0


def test_what_lies_between_is_not_touched() -> None:
    """Two maps far apart, with nothing between: reading there would kill the process."""
    maps = [mmap.mmap(-1, 1 << 16) for _ in range(2)]
    wide = mmap.mmap(-1, 1 << 30)
    more = mmap.mmap(-1, 1 << 16)
    wide.close()
    held = [np.frombuffer(m, np.uint16) for m in (*maps, more)]
    addresses = np.array([address(h) + 2 * 32_760 for h in held])  # to the very end of each map
    rows = Windows(addresses, np.ones(3, bool), 8, np.dtype(np.uint16)).rows(0, 3)
    assert rows.tolist() == [[0] * 8] * 3


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_addresses_that_no_view_spans(shift: int) -> None:
    """Values that are not a whole number of values apart, or not aligned: the caller copies these one by one."""
    held = np.zeros(64, np.uint8)
    base = address(held)
    for addresses in ([base, base + 8 + shift], [base + shift, base + 8 + shift]):
        found: Any = Windows(np.array(addresses), np.ones(2, bool), 2, np.dtype(np.int32))
        if found.missing:
            assert found.missing == [0, 1]
            assert found.rows(0, 2).shape == (2, 2)
    assert Windows(np.array([base, base + 8 + shift]), np.ones(2, bool), 2, np.dtype(np.int32)).missing == [0, 1]


def test_a_view_too_large_for_numpy() -> None:
    held = np.zeros(4, np.uint8)
    far = np.array([address(held), address(held) + (1 << 46)])
    assert Windows(far, np.ones(2, bool), 1 << 17, np.dtype(np.uint8)).missing == [0, 1]


def test_nothing_is_there() -> None:
    found = Windows(np.array([0, 5]), np.zeros(2, bool), 3, np.dtype(np.uint16))
    assert found.missing == [0, 1] and found.rows(1, 2).shape == (1, 3)
    assert Windows(np.zeros(0, np.int64), np.zeros(0, bool), 3, np.dtype(np.uint16)).rows(0, 0).shape == (0, 3)
