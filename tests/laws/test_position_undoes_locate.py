"""Law: the position of an example is where ``locate`` finds it, over stages, caps and every end; past it, none is."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.order.mix import Mixture, Stage

PLAYED = 250


@st.composite
def mixtures(draw):
    count = draw(st.integers(1, 4))
    stages = []
    for first in [0, *sorted(draw(st.sets(st.integers(1, 60), max_size=3)))]:
        weights = draw(st.tuples(*[st.sampled_from([0, 1, 2, 7, (1 << 48) - 1])] * count).filter(any))
        phases = draw(st.tuples(*[st.integers(0, 3)] * count))
        stages.append(Stage(first=first, weights=weights, phases=phases))
    caps = draw(st.one_of(st.just(()), st.tuples(*[st.one_of(st.none(), st.integers(0, 60))] * count)))
    until = draw(st.sampled_from(["first", "all", None, Fraction(1), Fraction(5, 3)]))
    lengths = draw(st.tuples(*[st.integers(1, 40)] * count))
    return {
        "ids": tuple(bytes([7 * i % 5]) for i in range(count)),
        "lengths": lengths,
        "stages": tuple(stages),
        "caps": caps,
        "until": until,
    }


def undoes(arguments, kind=Mixture):
    try:
        mixture = kind(**arguments)
    except ValueError:  # a stage runs dry, or the stream is too long: no mixture
        return
    end = PLAYED if mixture.length is None else min(mixture.length, PLAYED)
    sources, ordinals = mixture.locate(0, end)
    for position, (source, ordinal) in enumerate(zip(sources.tolist(), ordinals.tolist(), strict=True)):
        assert mixture.position(source, ordinal) == position
    for source, taken in enumerate(mixture.counts(end).tolist()):
        if mixture.length == end:
            for beyond in (taken, taken + 1, taken + 1000):
                with pytest.raises(IndexError, match="ends before"):
                    mixture.position(source, beyond)


@settings(max_examples=150, deadline=None)
@given(mixtures())
def test_positions(arguments):
    undoes(arguments)


def test_far_positions():
    stage = Stage(first=0, weights=(3, 5, 11), phases=(1, 2, 3))
    later = Stage(first=10**15, weights=(11, 0, 1), phases=(4, 5, 6))
    mixture = Mixture(ids=(b"a", b"b", b"c"), lengths=(10, 10, 10), stages=(stage, later), until=None)
    for start in (0, 10**9, 10**15 - 20, 10**15 + 10**9, 1 << 59):
        sources, ordinals = mixture.locate(start, start + 40)
        found = [mixture.position(s, k) for s, k in zip(sources.tolist(), ordinals.tolist(), strict=True)]
        assert found == list(range(start, start + 40))
    with pytest.raises(IndexError, match="ends before"):
        mixture.position(1, 1 << 59)  # the last stage leaves it out
    with pytest.raises(IndexError, match="ends before"):
        mixture.position(2, 1 << 59)  # beyond 2**60


STAGED = {
    "ids": (b"b", b"a"),
    "lengths": (9, 9),
    "stages": (Stage(first=0, weights=(1, 3), phases=(1, 2)), Stage(first=10, weights=(3, 1), phases=(3, 4))),
    "until": "all",
}


def test_law_kills_a_clock_that_does_not_restart():
    class Running(Mixture):
        def position(self, source, ordinal):
            return self._runs[0].slots.rank(source, ordinal)

    undoes(STAGED)
    with pytest.raises(AssertionError):
        undoes(STAGED, Running)


def test_law_kills_an_end_that_is_not_seen():
    class Endless(Mixture):
        def position(self, source, ordinal):
            run = next(run for run in reversed(self._runs) if run.carried[source] <= ordinal)
            return run.first + run.slots.rank(source, ordinal - int(run.carried[source]))

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        undoes(STAGED, Endless)
