"""Law: at every prefix each source has its share, to within 1 + (K - 2) w_s; none starves, none keeps a rhythm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.digest import Domain, of_bytes
from dsbuild.order.slots import Slots
from dsbuild.order.weights import phase_seed


def stream(weights, length, seed=0):
    ids = [of_bytes(Domain.FILE, str(s).encode()) for s in range(len(weights))]
    phases = [phase_seed(seed, 0, source) for source in ids]
    return Slots(weights, phases, [None] * len(weights), [i.raw for i in ids]).locate(0, length)[0]


def has_shares(weights, sources):
    """|n_s(t) D - W_s t| < D + (K - 2) W_s for all s and t, in integers."""
    total, t = sum(weights), np.arange(1, len(sources) + 1)
    for s, weight in enumerate(weights):
        error = np.abs(np.cumsum(sources == s) * total - weight * t)
        assert error.max() < total + (len(weights) - 2) * weight


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=12), st.integers(0, 1 << 63))
def test_every_prefix_has_its_shares(weights, seed):
    has_shares(weights, stream(weights, 2000, seed))


def test_long_prefixes_have_their_shares():
    for weights in ([1, 1], [1, 2, 7], [1, 10**6], list(range(1, 101))):
        has_shares(weights, stream(weights, 100_000))


def test_law_kills_independent_draws():
    weights = [1, 2, 7]
    drawn = np.random.default_rng(0).choice(3, 10_000, p=np.array(weights) / 10)
    with pytest.raises(AssertionError):
        has_shares(weights, drawn)


def never_starves(sources, count):
    """After t = 3 K positions of K equal sources the bound leaves each between 1 and 5."""
    seen = np.bincount(sources[: 3 * count], minlength=count)
    assert seen.min() >= 1 and seen.max() <= 5


def test_3000_equal_sources():
    never_starves(stream([1] * 3000, 9000), 3000)


def test_law_kills_rounded_blocks():
    # each block of 2,048 gives a source floor(2,048 w) places and the remainder to the first, as a peer does
    with pytest.raises(AssertionError):
        never_starves(np.zeros(9000, np.int64), 3000)


def spreads(sources, size):
    """The first source's number in a batch varies at most as much as that of independent draws."""
    share = float((sources == 0).mean())
    in_batch = (sources == 0).reshape(-1, size).sum(axis=1)
    assert in_batch.var() <= 1.1 * size * share * (1 - share)


def test_batches_vary_at_most_as_binomial():
    for weights in ([1, 1], [1, 2, 7], [1] * 20, [3, 50]):
        spreads(stream(weights, 64_000), 16)


def test_law_kills_runs_of_one_source():
    with pytest.raises(AssertionError):
        spreads(np.tile(np.repeat([0, 1], 50), 640), 16)


def has_no_rhythm(sources):
    """With two equal sources and two ranks, neither rank sees far more of one source than the other."""
    even = (sources[::2] == 0).mean()
    assert abs(even - 0.5) < 0.02


def test_two_ranks_see_both_sources():
    has_no_rhythm(stream([1, 1], 20_000))
    has_no_rhythm(stream([5, 5, 10], 20_000) // 2)


def test_law_kills_a_fixed_phase(monkeypatch):
    monkeypatch.setattr("dsbuild.order.slots.splitmix64", lambda seeds, ks: seeds + np.zeros_like(ks))
    with pytest.raises(AssertionError):
        has_no_rhythm(stream([1, 1], 20_000))
