"""Mixture: ends, caps and stages by example, and what it refuses."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dsbuild.order.mix import Mixture, Stage
from dsbuild.order.slots import Slots

IDS = (b"a" * 32, b"b" * 32)


def stage(first: int = 0, *weights: int) -> Stage:
    return Stage(first=first, weights=weights or (1, 3), phases=(11 + first, 12 + first))


def mixture(**changes: Any) -> Mixture:
    return Mixture(**{"ids": IDS, "lengths": (10, 90), "stages": (stage(),)} | changes)


def counted(made: Mixture) -> list[int]:
    assert made.length is not None
    return np.bincount(made.locate(0, made.length)[0], minlength=2).tolist()


def test_ends() -> None:
    first, whole = mixture(until="first"), mixture(until="all")
    assert first.length is not None and 39 <= first.length <= 44  # source 0 would start again after about 40
    assert counted(first)[0] == 10 and counted(first)[1] < 90
    assert counted(whole)[1] == 90 and 29 <= counted(whole)[0] <= 31
    assert counted(mixture(until=Fraction(2))) == counted(mixture(until=2)) == [20, 180]
    assert counted(mixture(until=Fraction(5, 2))) == [25, 225]
    assert mixture(until=None).length is None


def test_caps() -> None:
    assert counted(mixture(until="all", caps=(12, None))) == [12, 90]
    assert counted(mixture(until="first", caps=(10, None)))[1] == 90  # capped at its length: never starts again
    assert counted(mixture(until=2, caps=(None, 100))) == [20, 100]
    assert counted(mixture(until=None, caps=(3, 4))) == [3, 4]
    assert mixture(until="all", caps=(0, 0)).length == 0
    assert mixture(until="first", caps=(0, 7)).locate(0, 7)[0].tolist() == [1] * 7


def test_one_source_is_in_its_own_order() -> None:
    alone = Mixture(ids=IDS[:1], lengths=(5,), stages=(Stage(first=0, weights=(1,), phases=(3,)),), until=3)
    assert alone.length == 15
    assert alone.locate(4, 9)[1].tolist() == [4, 5, 6, 7, 8]
    assert alone.counts(9).tolist() == [9]


def test_stages_go_on_where_they_were() -> None:
    staged = mixture(stages=(stage(0, 1, 0), stage(6, 1, 3), stage(30, 0, 1)), until="all")
    assert staged.locate(0, 6)[0].tolist() == [0] * 6
    assert counted(staged)[1] == 90
    sources, ordinals = staged.locate(0, staged.length or 0)
    for source in (0, 1):
        assert ordinals[sources == source].tolist() == list(range(int((sources == source).sum())))
    assert staged.counts(30).sum() == 30


def test_all_ends_where_the_last_unfinished_source_leaves() -> None:
    left = mixture(lengths=(1000, 3), stages=(stage(0, 1, 1), stage(50, 0, 1)), until="all")
    assert left.length == 50


def test_blocks_join() -> None:
    endless = mixture(until=None)
    far = endless.locate(10**9, 10**9 + 70_000)
    near = endless.locate(10**9 + 65_530, 10**9 + 65_545)
    assert np.array_equal(far[0][65_530:65_545], near[0]) and np.array_equal(far[1][65_530:65_545], near[1])


def test_pickles() -> None:
    made = mixture()
    again = pickle.loads(pickle.dumps(made))
    assert again == made and np.array_equal(again.locate(5, 50)[1], made.locate(5, 50)[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": (10, 0)}, "source 1 has 0 examples"),
        ({"ids": (IDS[0], IDS[0])}, "the same id"),
        ({"lengths": (1,)}, "1 lengths"),
        ({"caps": (1,)}, "1 caps"),
        ({"caps": (1, -1)}, "limit"),
        ({"stages": ()}, "stages start at"),
        ({"stages": (stage(1),)}, "stages start at"),
        ({"stages": (stage(), stage(5), stage(5))}, "stages start at"),
        ({"stages": (Stage(first=0, weights=(1, 2, 3), phases=(1, 2, 3)),)}, "3 weights"),
        ({"stages": (stage(0, 0, 0),)}, "one of them above 0"),
        ({"stages": (stage(0, 1, 0), stage(20)), "until": 1}, "stage 0 has 10 examples"),
        ({"until": "never"}, "until 'never'"),
        ({"until": Fraction(0)}, "until"),
        ({"until": 1 << 60}, "limit"),
        ({"lengths": (1 << 40, 5), "stages": (stage(0, 1, 1 << 47),)}, r"2\*\*60"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixture(**changes)


def test_a_far_end_does_not_matter_in_a_stage_that_is_left() -> None:
    tiny = (stage(0, 1, 1 << 47), stage(100, 1, 1))
    made = mixture(lengths=(1 << 40, 5), stages=tiny)
    assert made.length is not None and abs(made.length - (1 << 41)) < 200


def test_outside() -> None:
    made = mixture(until=1)
    for start, stop in ((-1, 3), (5, 4), (0, 101)):
        with pytest.raises(IndexError, match="of 100"):
            made.locate(start, stop)
    with pytest.raises(IndexError, match="of 100"):
        made.counts(101)
    with pytest.raises(IndexError, match="positions"):
        Slots([1], [2], [5], [b""]).locate(0, 6)
    with pytest.raises(IndexError, match="slot 5 of 5"):
        Slots([1], [2], [5], [b""]).rank(0, 5)


def test_positions_of_examples() -> None:
    made = mixture(until="all", caps=(12, None))
    assert made.length is not None
    last = [made.position(0, 11), made.position(1, 89)]
    assert max(last) == made.length - 1
    for source, ordinal in ((0, 12), (1, 90), (2, 0), (-1, 0), (0, -1)):
        with pytest.raises(IndexError, match=f"example {ordinal} of source {source}"):
            made.position(source, ordinal)
    left = mixture(lengths=(1000, 3), stages=(stage(0, 1, 1), stage(50, 0, 1)), until=None)
    with pytest.raises(IndexError, match="ends before it"):
        left.position(0, 900)  # no later stage has the source
