"""Law: the ranks' positions of a step, in order of rank, are those of one rank; steps follow on one another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsbuild.order.partition import Schedule, positions, uneven_positions


def joins(step, size, world, rule):
    whole = range(*rule(step, size, 0, 1))
    assert len(whole) == size and whole.start == step * size
    assert [at for rank in range(world) for at in range(*rule(step, size, rank, world))] == list(whole)


@given(st.integers(0, 1 << 40), st.integers(1, 16), st.integers(1, 16))
def test_even(step, each, world):
    joins(step, each * world, world, positions)
    assert {stop - start for start, stop in (positions(step, each * world, r, world) for r in range(world))} == {each}


@given(st.integers(0, 1 << 40), st.integers(1, 64), st.integers(1, 100))
def test_uneven(step, size, world):
    joins(step, size, world, uneven_positions)
    shares = [stop - start for start, stop in (uneven_positions(step, size, r, world) for r in range(world))]
    assert max(shares) - min(shares) <= 1


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), min_size=1, max_size=5), st.integers(0, 60))
def test_schedules(changes, most):
    starts = [sum(steps for steps, _ in changes[:at]) for at in range(len(changes))]
    sizes = [2 * size for _, size in changes]
    schedule = Schedule(starts=tuple(starts), sizes=tuple(sizes))
    at = 0
    for step in range(60):
        size = next(size for start, size in zip(reversed(starts), reversed(sizes), strict=True) if start <= step)
        assert schedule.steps(at) == step and schedule.steps(at + size - 1) == step
        assert schedule.first(step) == at and schedule.size(step) == size
        assert schedule.positions(step, 0, 2) == (at, at + size // 2)
        assert schedule.positions(step, 1, 2) == (at + size // 2, at + size)
        at += size


def test_law_kills_shares_that_leave_a_rest():
    def floored(step, size, rank, world):
        return step * size + rank * (size // world), step * size + (rank + 1) * (size // world)

    joins(3, 8, 4, floored)
    with pytest.raises(AssertionError):
        joins(3, 10, 4, floored)
