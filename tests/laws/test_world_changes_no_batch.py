"""Law: the ranks' batches, one after the other, are those of one rank, bit for bit, also where the world changes."""

from __future__ import annotations

import json
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsbuild.load import Dataset
from dsbuild.order.partition import Schedule

WORLDS = (1, 2, 3, 4, 6, 8, 12)
WHOLE = 24
"""Divided by all worlds."""


def joined(batches, length):
    """Batches one after the other; borders of documents count on."""
    found = {}
    for name in batches[0]:
        arrays = [batch[name] for batch in batches]
        if name == "cu_seqlens":
            ends = [0, *accumulate(int(a[-1]) for a in arrays)]
            found[name] = np.concatenate(
                [a[:-1] + e for a, e in zip(arrays, ends, strict=False)] + [ends[-1:]], dtype=np.int32
            )
        else:
            found[name] = np.concatenate(arrays)
    return found


def equal(one, other):
    assert list(one) == list(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype and array.shape == other[name].shape, name
        assert array.tobytes() == other[name].tobytes(), name


def columns(dataset):
    return dataset.shape.known


def every_world_gives_the_batch(dataset, step, size, world, batch=Dataset.batch, **options):
    parts = [batch(dataset, step, size, rank, world, columns=columns(dataset), **options) for rank in range(world)]
    whole = dataset.batch(step, size, columns=columns(dataset))
    equal(joined(parts, dataset.shape.length), whole)
    if not options:
        assert {len(p["input_ids"]) for p in parts} == {size // world}


def changing_worlds_give_the_stream(dataset, schedule, plan, options, loader=Dataset.loader):
    """``plan``: (world, steps) one after the other; each state is loaded by the next world's ranks."""
    state, step, start = dataset.loader(schedule).state_dict(), 0, 0
    for world, steps in plan:
        ranks = [loader(dataset, schedule, rank, world, columns=columns(dataset), **options) for rank in range(world)]
        for one in ranks:
            one.load_state_dict(json.loads(json.dumps(state)))
        for _ in range(steps):
            size = schedule.size(step)
            parts = [next(one, None) for one in ranks]
            if start + size > len(dataset):
                assert parts == [None] * world
                return
            whole = dataset.examples(start, start + size, columns=columns(dataset))
            equal(joined(parts, dataset.shape.length), whole)
            step, start = step + 1, start + size
        states = [one.state_dict() for one in ranks]
        assert all(s == states[0] for s in states)
        state = states[0]
        for one in ranks:
            one.close()


@st.composite
def schedules(draw, unit):
    changes = draw(
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2 if unit > 1 else 40)), min_size=1, max_size=3)
    )
    starts = tuple(accumulate([0, *(steps for steps, _ in changes[:-1])]))
    return Schedule(starts=starts, sizes=tuple(unit * size for _, size in changes))


PLANS = st.lists(st.tuples(st.sampled_from(WORLDS), st.integers(0, 4)), min_size=1, max_size=4)
OPTIONS = st.fixed_dictionaries({"prefetch": st.integers(0, 3), "threads": st.integers(1, 3), "reuse": st.booleans()})
SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("world", WORLDS)
def test_every_world(corpus, world):
    for name in corpus.names:
        dataset = corpus[name]
        last = dataset.steps(WHOLE) - 1
        for step in {0, last // 2, last}:
            every_world_gives_the_batch(dataset, step, WHOLE, world)


@pytest.mark.parametrize("world", [2, 3, 5, 7, 12, 31])
def test_uneven_worlds(corpus, world):
    for name in ("document", "fit", "none-dealt"):
        every_world_gives_the_batch(corpus[name], 1, 11, world, uneven=True)


@SETTINGS
@given(data=st.data(), name=st.integers(0, 7), plan=PLANS, options=OPTIONS)
def test_changing_worlds(corpus, data, name, plan, options):
    changing_worlds_give_the_stream(corpus[corpus.names[name]], data.draw(schedules(WHOLE)), plan, options)


@SETTINGS
@given(data=st.data(), name=st.integers(0, 7), plan=PLANS, options=OPTIONS)
def test_changing_uneven_worlds(corpus, data, name, plan, options):
    options = {**options, "uneven": True}
    changing_worlds_give_the_stream(corpus[corpus.names[name]], data.draw(schedules(1)), plan, options)


def test_law_kills_ranks_that_take_every_nth(corpus):
    def strided(dataset, step, size, rank, world, **options):
        found = dataset.batch(step, size, **{**options, "columns": ("input_ids", "labels")})
        return {name: array[rank::world] for name, array in found.items()}

    every_world_gives_the_batch(corpus["plain"], 0, 24, 2)
    with pytest.raises(AssertionError):
        every_world_gives_the_batch(corpus["plain"], 0, 24, 2, strided)


def test_law_kills_states_of_steps_of_a_world(corpus):
    """A state that counts a rank's own examples means another place in another world."""

    def per_rank(dataset, size, rank, world, **options):
        made = Dataset.loader(dataset, size, rank, world, **options)
        place = made.state_dict
        made.state_dict = lambda: {**place(), "position": place()["position"] // world}
        return made

    schedule = Schedule(starts=(0,), sizes=(24,))
    changing_worlds_give_the_stream(corpus["plain"], schedule, [(2, 2), (4, 2)], {})
    with pytest.raises(AssertionError):
        changing_worlds_give_the_stream(corpus["plain"], schedule, [(2, 2), (4, 2)], {}, per_rank)
