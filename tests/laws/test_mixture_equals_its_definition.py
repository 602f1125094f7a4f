"""Law: any window of a mixture, reached at random, is that of its definition played from the start in exact ratios."""

from __future__ import annotations

import heapq
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsbuild.order import slots
from dsbuild.order.mix import Mixture, Stage
from dsbuild.order.slots import Slots

M = (1 << 64) - 1
PLAYED = 400


def phase(seed: int, k: int) -> int:
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & M
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M
    return z ^ (z >> 31)


class Dry(Exception):
    """A stage's sources give no more before the next stage."""


class Naive:
    """The definition: at each position, does the stream end here; if not, the earliest slot of those left."""

    def __init__(self, ids, lengths, stages, caps, until):
        self.ids, self.lengths, self.stages, self.until = ids, lengths, stages, until
        self.limits = list(caps or [None] * len(ids))
        if isinstance(until, Fraction):
            epochs = [int(until * n) for n in lengths]
            self.limits = [e if c is None else min(c, e) for c, e in zip(self.limits, epochs, strict=True)]

    def more(self, source, k):
        return self.limits[source] is None or k < self.limits[source]

    def complete(self, stage, counts):
        for s, n in enumerate(self.lengths):
            wanted = n if self.limits[s] is None else min(n, self.limits[s])
            if counts[s] < wanted and any(later.weights[s] for later in self.stages[stage:]):
                return False
        return True

    def play(self, most):
        """(sources, ordinals, whether it ended) of at most ``most`` positions. Raises ``Dry``."""
        counts = [0] * len(self.ids)
        stage, heap, found = -1, [], []
        while len(found) < most:
            if stage + 1 < len(self.stages) and self.stages[stage + 1].first == len(found):
                stage += 1
                carried = list(counts)
                now = self.stages[stage]
                heap = [
                    (Fraction(phase(now.phases[s], 0), w), self.ids[s], s)
                    for s, w in enumerate(now.weights)
                    if w and self.more(s, counts[s])
                ]
                heapq.heapify(heap)
            if self.until == "all" and self.complete(stage, counts):
                return found, True
            if not heap:
                if stage + 1 < len(self.stages):
                    raise Dry
                return found, True
            _, _, s = heapq.heappop(heap)
            if self.until == "first" and counts[s] == self.lengths[s]:
                return found, True
            found.append((s, counts[s]))
            counts[s] += 1
            j = counts[s] - carried[s]
            if self.more(s, counts[s]):
                time = Fraction((j << 64) + phase(now.phases[s], j), now.weights[s])
                heapq.heappush(heap, (time, self.ids[s], s))
        return found, False


@st.composite
def mixtures(draw):
    count = draw(st.integers(1, 5))
    weight = st.sampled_from([0, 1, 1, 2, 3, 7, 100, (1 << 40) + 1, (1 << 48) - 1])
    few = draw(st.booleans())  # few phases: equal times, so ties
    seed = st.integers(0, 1) if few else st.integers(0, M)
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 60), max_size=3)))]
    stages = []
    for first in firsts:
        ratios = draw(st.lists(weight, min_size=count, max_size=count).filter(any))
        stages.append(Stage(first=first, weights=tuple(ratios), phases=tuple(draw(seed) for _ in range(count))))
    caps = draw(st.one_of(st.just(()), st.tuples(*[st.one_of(st.none(), st.integers(0, 60)) for _ in range(count)])))
    until = draw(st.sampled_from(["first", "all", None, Fraction(1), Fraction(3), Fraction(1, 2), Fraction(5, 3)]))
    ids = draw(st.permutations([bytes([i]) * 32 for i in range(count)]))
    lengths = tuple(draw(st.integers(1, 40)) for _ in range(count))
    return {"ids": tuple(ids), "lengths": lengths, "stages": tuple(stages), "caps": caps, "until": until}


def agree(arguments, windows, build=Mixture):
    try:
        expected, ended = Naive(**arguments).play(PLAYED)
    except Dry:
        with pytest.raises(ValueError, match="stage"):
            build(**arguments)
        return
    try:
        mixture = build(**arguments)
    except ValueError as error:
        # a weight so small that the stream ends beyond 2**60: the play did not reach its end either
        assert "2**60" in str(error) and not ended
        return
    if ended:
        assert mixture.length == len(expected)
    else:
        assert mixture.length is None or mixture.length >= PLAYED
    for a, b in windows:
        start, stop = sorted((a % (len(expected) + 1), b % (len(expected) + 1)))
        sources, ordinals = mixture.locate(start, stop)
        assert list(zip(sources.tolist(), ordinals.tolist(), strict=True)) == expected[start:stop]
        counts = [sum(1 for s, _ in expected[:stop] if s == source) for source in range(len(mixture.ids))]
        assert mixture.counts(stop).tolist() == counts


WINDOWS = st.lists(st.tuples(st.integers(0, PLAYED), st.integers(0, PLAYED)), min_size=1, max_size=4)
WHOLE = [(0, PLAYED)]


@settings(max_examples=300, deadline=None)
@given(mixtures(), WINDOWS)
@example(
    {
        "ids": (b"b", b"a", b"c"),
        "lengths": (5, 9, 2),
        "stages": (Stage(first=0, weights=(1, 2, 7), phases=(1, 2, 3)),),
        "caps": (),
        "until": "all",
    },
    WHOLE,
)
def test_windows_are_those_of_the_definition(arguments, windows):
    agree(arguments, [*windows, WHOLE[0]])


def twins(until, **more):
    stage = Stage(first=0, weights=(1, 1), phases=(4, 4))
    return {"ids": (b"b", b"a"), "lengths": (6, 8), "stages": (stage,), "caps": (), "until": until, **more}


def test_law_kills_ties_by_place(monkeypatch):
    agree(twins("all"), WHOLE)
    monkeypatch.setattr(Slots, "_settle", lambda *_: None)
    with pytest.raises(AssertionError):
        agree(twins("all"), WHOLE)


def test_law_kills_an_end_that_is_off_by_one():
    def late(**arguments):
        mixture = Mixture(**arguments)
        object.__setattr__(mixture, "length", mixture.length + 1)
        return mixture

    for until in ("first", "all", Fraction(1)):
        agree(twins(until), WHOLE)
        with pytest.raises(AssertionError):
            agree(twins(until), WHOLE, build=late)


def rank(weights, phases, ids, source, k):
    """The position of slot k of ``source``: how many slots of all sources come before it, in plain integers."""
    time = Fraction((k << 64) + phase(phases[source], k), weights[source])
    before = 0
    for s, weight in enumerate(weights):
        reached = time * weight
        j = max(int(reached) >> 64, 0)
        at = Fraction((j << 64) + phase(phases[s], j))
        before += j + (at < reached or (at == reached and ids[s] < ids[source]))
    return before


def exact_at(ratios, phases, start, count, kind=Slots):
    ids = [bytes([255 - s]) for s in range(len(ratios))]
    stream = kind(ratios, phases, [None] * len(ratios), ids)
    sources, found = stream.locate(start, start + count)
    places = [rank(ratios, phases, ids, s, k) for s, k in zip(sources.tolist(), found.tolist(), strict=True)]
    assert places == list(range(start, start + count))
    for s, k in zip(sources[:2].tolist(), found[:2].tolist(), strict=True):
        assert stream.rank(s, k) == rank(ratios, phases, ids, s, k)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.integers(1, 9), st.integers(1, (1 << 48) - 1)), min_size=1, max_size=6),
    st.integers(0, 1 << 59),
    st.integers(1, 4),
)
def test_far_positions_are_exact(ratios, start, seeds):
    exact_at(ratios, [s % seeds for s in range(len(ratios))], start, 40)


# D near 2**56: neighbours are 256 ticks apart, so equal whole times are frequent
CROWDED = [(1 << 48) - 1 - 2 * s for s in range(250)], [s * 12345 for s in range(250)], 10**15, 600


def test_crowded_times_are_exact():
    exact_at(*CROWDED)


def test_law_kills_whole_times_without_their_remainders():
    class Whole(Slots):
        __slots__ = ()

        def _settle(self, order, keys, sources, slots, words):
            order[:] = sorted(range(len(order)), key=lambda at: (keys[at], self._ids[sources[at]]))

    with pytest.raises(AssertionError):
        exact_at(*CROWDED, kind=Whole)


def test_law_kills_floats():
    class Float(Slots):
        __slots__ = ()

        def _before(self, tick):
            return (tick / 2.0**64 * self._weights.astype(float)).astype(np.uint64)

    far = [3, 5, (1 << 40) + 1], [1, 2, 3], (1 << 56) + 1, 40
    exact_at(*far)
    with pytest.raises(AssertionError):
        exact_at(*far, kind=Float)


def test_the_guess_decides_nothing(monkeypatch):
    stream = Slots([3, 5, 11], [1, 2, 3], [40, None, 70], [b"a", b"b", b"c"])
    expected = [part.tolist() for part in stream.locate(30, 190)]
    true = slots._Guesses.tick
    monkeypatch.setattr(
        slots._Guesses, "tick", lambda self, position: true(self, position - 17 if position > 100 else position // 2)
    )
    assert [part.tolist() for part in stream.locate(30, 190)] == expected
