"""Law: the batch of a step is what iterating to it gives, and what its examples give one by one; from any start."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.load import Dataset, Loader


def same(one, other):
    assert list(one) == list(other)
    assert all(one[n].dtype == other[n].dtype and one[n].tobytes() == other[n].tobytes() for n in one)


def iterating_gives_the_batches(dataset, size, options, start=0, loader=Dataset.loader):
    steps = dataset.steps(size)
    with loader(dataset, size, start=start, **options) as batches:
        for step in range(start, steps):
            assert batches.step == step and batches.position == step * size
            same(next(batches), dataset.batch(step, size))
        assert next(batches, None) is None and next(batches, None) is None


def examples_give_the_batch(dataset, step, size):
    whole = dataset.batch(step, size)
    same(dataset.examples(step * size, (step + 1) * size), whole)
    rows = [dataset.example(at) for at in range(step * size, (step + 1) * size)]
    same({name: np.stack([row[name] for row in rows]) for name in rows[0]}, whole)
    halves = [dataset.examples(step * size + a, step * size + b) for a, b in ((0, size // 2), (size // 2, size))]
    same({name: np.concatenate([half[name] for half in halves]) for name in whole}, whole)


def seeking_gives_the_batches(dataset, size, steps, options, loader=Dataset.loader):
    with loader(dataset, size, **options) as batches:
        for drawn, count in steps:
            step = drawn % (dataset.steps(size) + 1)
            batches.seek(step)
            for at in range(step, min(step + count, dataset.steps(size))):
                same(next(batches), dataset.batch(at, size))
            if step >= dataset.steps(size):
                assert next(batches, None) is None


def reused_arrays_hold(dataset, size, prefetch, loader=Dataset.loader):
    """A batch is what it was until ``prefetch`` + 1 more were taken, and few arrays are made."""
    kept, arrays = deque(maxlen=prefetch + 2), {}
    with loader(dataset, size, prefetch=prefetch, reuse=True) as batches:
        for step, batch in enumerate(batches):
            kept.append((step, batch))
            arrays[id(batch["input_ids"])] = batch["input_ids"]
            for at, earlier in kept:
                same(earlier, dataset.batch(at, size))
    assert len(arrays) == min(prefetch + 2, dataset.steps(size))


STREAM = st.integers(0, 7)
OPTIONS = st.fixed_dictionaries({"prefetch": st.integers(0, 3), "threads": st.integers(1, 3), "reuse": st.booleans()})
STEPS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 4)), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(STREAM, st.integers(5, 60), OPTIONS, st.integers(0, 3))
def test_iterating(corpus, stream, size, options, start):
    dataset = corpus[corpus.names[stream]]
    iterating_gives_the_batches(dataset, size, options, start % (dataset.steps(size) + 1))


@settings(max_examples=25, deadline=None)
@given(st.data(), STREAM, st.integers(1, 20))
def test_examples(corpus, data, stream, size):
    dataset = corpus[corpus.names[stream]]
    examples_give_the_batch(dataset, data.draw(st.integers(0, dataset.steps(size) - 1)), size)


@settings(max_examples=25, deadline=None)
@given(STREAM, st.integers(1, 30), STEPS, OPTIONS)
def test_seeking(corpus, stream, size, steps, options):
    seeking_gives_the_batches(corpus[corpus.names[stream]], size, steps, options)


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_reuse(corpus, prefetch):
    reused_arrays_hold(corpus["document"], 40, prefetch)
    reused_arrays_hold(corpus["fit-dealt"], 20, prefetch)


def test_arrays_of_ones_own_stay(corpus):
    dataset = corpus["plain"]
    batches = list(dataset.loader(40, threads=2, prefetch=3))
    for step, batch in enumerate(batches):
        same(batch, dataset.batch(step, 40))


class Behind(Loader):
    """Forgets to stop what was made ahead."""

    def seek(self, step):
        self._step, self._position = step, self.schedule.first(step)


class Eager(Loader):
    """Gives its arrays again one batch too early."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._buffers = deque(maxlen=options["prefetch"] + 1)


def test_law_kills_batches_made_before_a_seek(corpus):
    seeking_gives_the_batches(corpus["plain"], 8, [(3, 2), (0, 1)], {"prefetch": 2})
    with pytest.raises(AssertionError):
        seeking_gives_the_batches(corpus["plain"], 8, [(3, 2), (0, 1)], {"prefetch": 2}, Behind)


def test_law_kills_arrays_given_again_too_early(corpus):
    with pytest.raises(AssertionError):
        reused_arrays_hold(corpus["document"], 40, 2, Eager)


def test_law_kills_a_start_in_steps_of_one(corpus):
    def confused(dataset, size, start, **options):
        made = dataset.loader(size, **options)
        made._step, made._position = start, start
        return made

    with pytest.raises(AssertionError):
        iterating_gives_the_batches(corpus["plain"], 30, {}, 2, confused)
