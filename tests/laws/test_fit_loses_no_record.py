"""Law: bins hold each record that is not empty once and whole, none too many, by the exact rule; chat pads under 1 %."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order import fit as module
from dsbuild.order.fit import WINDOW, each, fit


def bins_of(packed):
    offsets, rows = packed
    assert offsets.dtype == rows.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == len(rows)
    return [rows[low:high].tolist() for low, high in pairwise(offsets)]


def loses_none(lengths, capacity, pack=fit):
    bins = bins_of(pack(lengths, capacity))
    assert sorted(row for rows in bins for row in rows) == [row for row, n in enumerate(lengths) if n]
    assert all(sum(lengths[row] for row in rows) <= capacity for rows in bins)
    assert all(rows == sorted(rows) for rows in bins)
    assert [rows[0] for rows in bins] == sorted(rows[0] for rows in bins)
    assert all(rows[0] // module.WINDOW == rows[-1] // module.WINDOW for rows in bins)


def by_the_rule(lengths, capacity):
    """Windows of ``module.WINDOW`` records, placed one by one."""
    found = []
    for start in range(0, len(lengths), module.WINDOW):
        rows = [row for row in range(start, min(start + module.WINDOW, len(lengths))) if lengths[row]]
        bins: list[list[int]] = []  # rows, the bin changed last at the end
        for row in sorted(rows, key=lambda row: (-lengths[row], row)):
            rooms = [capacity - sum(lengths[other] for other in held) for held in bins]
            wide = [(room, -place) for place, room in enumerate(rooms) if room >= lengths[row]]
            held = bins.pop(-min(wide)[1]) if wide else []
            bins.append([*held, row])
        found += [sorted(held) for held in bins]
    return sorted(found)


def keeps_the_rule(lengths, capacity, pack=fit):
    assert bins_of(pack(lengths, capacity)) == by_the_rule(lengths, capacity)


@st.composite
def records(draw):
    capacity = draw(st.sampled_from([1, 2, 7, 30, 100, 511, 512, 513, 1500, 5000]))
    longest = draw(st.integers(1, capacity))
    return draw(st.lists(st.integers(0, longest), max_size=80)), capacity


@settings(max_examples=200, deadline=None)
@given(records())
def test_any_lengths(case):
    loses_none(*case)
    keeps_the_rule(*case)


@settings(max_examples=100, deadline=None)
@given(records(), st.integers(1, 20))
def test_windows(case, window):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW", window)
        loses_none(*case)
        keeps_the_rule(*case)


@given(records())
def test_one_record_a_bin(case):
    lengths, capacity = case
    bins = bins_of(each([*lengths, capacity + 1, 0], capacity))
    assert bins == [[row] for row in range(len(lengths))] + [[len(lengths) + 1]]


def chat(records, capacity):
    """Lognormal lengths of mean 600, cut to the capacity."""
    drawn = np.random.default_rng(3).lognormal(np.log(600) - 0.5, 1.0, records).astype(np.int64)
    return np.clip(drawn, 1, capacity)


def next_fit(lengths, capacity):
    """Records in their order, into the open bin or a new one: a loader's greedy packing."""
    bins, room = [], 0
    for row, length in enumerate(lengths):
        if length > room:
            bins.append([])
            room = capacity
        bins[-1].append(row)
        room -= int(length)
    return np.cumsum([0, *map(len, bins)]), np.concatenate(bins)


def padding(capacity, pack):
    lengths = chat(40_000, capacity)  # three windows, the last one short
    offsets, _ = pack(lengths, capacity)
    return 1 - lengths.sum() / ((len(offsets) - 1) * capacity)


@pytest.mark.parametrize("capacity", [2049, 8193])
def test_chat_pads_under_one_percent(capacity):
    assert padding(capacity, fit) < 0.002


def test_greedy_pads_more():
    assert padding(2049, next_fit) > 0.1 and padding(8193, next_fit) > 0.03


def test_a_whole_window_keeps_the_rule():
    lengths = np.concatenate((np.full(WINDOW - 300, 3), chat(1400, 700))).tolist()
    bins = bins_of(fit(lengths, 700))
    assert bins[:1] != [] and all(rows[0] // WINDOW == rows[-1] // WINDOW for rows in bins)
    behind = [[row - WINDOW for row in rows] for rows in bins if rows[0] >= WINDOW]
    assert behind == by_the_rule(lengths[WINDOW:], 700)  # what is before a window does not matter to it


CASE = [30, 70, 60, 40, 50, 50, 0, 45, 5, 25, 30, 100, 20, 20], 100


def test_law_kills_the_first_bin_that_holds_it():
    def first_fit(lengths, capacity):
        bins: list[list[int]] = []
        for row in sorted((row for row, n in enumerate(lengths) if n), key=lambda row: (-lengths[row], row)):
            wide = [held for held in bins if sum(lengths[other] for other in held) + lengths[row] <= capacity]
            (wide[0] if wide else bins.append([]) or bins[-1]).append(row)
        bins = sorted(sorted(held) for held in bins)
        return np.cumsum([0, *map(len, bins)]), np.array([row for held in bins for row in held])

    case = chat(60, 1000).tolist(), 1000
    loses_none(*case, first_fit)
    keeps_the_rule(*case)
    with pytest.raises(AssertionError):
        keeps_the_rule(*case, first_fit)


def test_law_kills_a_lost_bin():
    def short(lengths, capacity):
        offsets, rows = fit(lengths, capacity)
        return offsets[:-1], rows[: offsets[-2]]

    loses_none(*CASE)
    with pytest.raises(AssertionError):
        loses_none(*CASE, short)


def test_law_kills_bins_that_are_too_full():
    with pytest.raises(AssertionError):
        loses_none(*CASE, lambda lengths, capacity: fit(lengths, capacity + 5))
