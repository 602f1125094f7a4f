"""Partition: by example, and what it refuses."""

from __future__ import annotations

import pytest

from dsbuild.order.partition import Schedule, positions, steps, uneven_positions


def test_shares() -> None:
    assert positions(3, 8) == (24, 32)
    assert [positions(3, 8, rank, 4) for rank in range(4)] == [(24, 26), (26, 28), (28, 30), (30, 32)]
    assert [uneven_positions(1, 5, rank, 3) for rank in range(3)] == [(5, 6), (6, 8), (8, 10)]
    assert steps(100, 8) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 0, 4), "batch size 10 over world 4"),
        ((0, 8, 4, 4), "rank 4 of world 4"),
        ((0, 8, -1, 4), "rank -1"),
        ((0, 8, 0, 0), "world 0"),
        ((-1, 8, 0, 1), "step -1"),
        ((0, 0, 0, 1), "size 0"),
    ],
)
def test_refusals(arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        positions(*arguments)


def test_schedule() -> None:
    ramp = Schedule(starts=(0, 10, 20), sizes=(4, 8, 16))
    assert [ramp.first(step) for step in (0, 9, 10, 11, 20, 21)] == [0, 36, 40, 48, 120, 136]
    assert [ramp.size(step) for step in (9, 10, 100)] == [4, 8, 16]
    assert ramp.positions(10, 1, 2) == (44, 48)
    assert ramp.steps(135) == 20


@pytest.mark.parametrize(("starts", "sizes"), [((), ()), ((1,), (4,)), ((0, 0), (4, 4)), ((0,), (0,)), ((0, 5), (4,))])
def test_schedule_refusals(starts: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="steps"):
        Schedule(starts=starts, sizes=sizes)
