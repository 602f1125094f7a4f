"""Law: a loader that takes up a saved state gives what the one that saved it would have given, whatever its options."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.errors import LockError
from dsbuild.load import Dataset, Loader

OPTIONS = st.fixed_dictionaries({"prefetch": st.integers(0, 3), "threads": st.integers(1, 3), "reuse": st.booleans()})


def saved(loader):
    text = json.dumps(loader.state_dict())
    assert len(text) < 200
    return json.loads(text)


def same(one, other):
    assert list(one) == list(other)
    assert all(one[n].dtype == other[n].dtype and one[n].tobytes() == other[n].tobytes() for n in one)


def resumes(dataset, size, steps, before, after, world=1, loader=Loader):
    """``steps`` of one loader, then those of ``world`` others beside its own."""
    with loader(dataset, size, **before) as first:
        for _ in range(steps):
            next(first, None)
        state = saved(first)
        others = [Loader(dataset, size, rank, world, **after) for rank in range(world)]
        for other in others:
            other.load_state_dict(state)
            assert saved(other) == state
        while True:
            expected = next(first, None)
            parts = [next(other, None) for other in others]
            assert all((part is None) == (expected is None) for part in parts)
            if expected is None:
                return
            same({name: np.concatenate([p[name] for p in parts]) for name in expected}, expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7), st.integers(1, 6), st.integers(0, 12), OPTIONS, OPTIONS, st.sampled_from([1, 2, 3, 4]))
def test_resuming(corpus, stream, times, steps, before, after, world):
    resumes(corpus[corpus.names[stream]], 12 * times, steps, before, after, world)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 7), st.integers(1, 20), st.integers(1, 20), st.integers(0, 5), OPTIONS)
def test_another_batch_size_goes_on_from_the_position(corpus, stream, size, other, steps, options):
    dataset = corpus[corpus.names[stream]]
    first = dataset.loader(size, **options)
    taken = sum(next(first, None) is not None for _ in range(steps))
    state = saved(first)
    first.close()
    assert state["position"] == taken * size and state["step"] == taken
    with dataset.loader(other, **options) as second:
        second.load_state_dict(state)
        for at in range(state["position"], min(state["position"] + 3 * other, len(dataset) - other + 1), other):
            assert second.position == at
            same(next(second), dataset.examples(at, at + other))


def test_an_error_moves_no_state(corpus):
    loader = corpus["plain"].loader(8)
    next(loader)
    before = saved(loader)
    for wrong in WRONG:
        with pytest.raises(LockError):
            loader.load_state_dict(wrong(before))
    assert saved(loader) == before
    loader.close()


WRONG = [
    lambda state: state | {"dataset": "0" * 64},
    lambda state: state | {"split": "valid"},
    lambda state: state | {"step": -1},
    lambda state: state | {"position": -1},
    lambda state: state | {"position": 2.0},
    lambda state: state | {"position": True},
    lambda state: state | {"position": None},
    lambda state: state | {"step": "3"},
    lambda state: {k: v for k, v in state.items() if k != "position"},
    lambda state: {k: v for k, v in state.items() if k != "dataset"},
    lambda state: {},
    lambda state: None,
    lambda state: [state],
    lambda state: "state",
]


def test_another_dataset_is_refused_by_name(corpus):
    state = corpus["fit"].loader(4).state_dict()
    with pytest.raises(LockError) as caught:
        corpus["none"].loader(4).load_state_dict(state)
    assert caught.value.kind == "lock-mismatch"
    for dataset in (corpus["fit"], corpus["none"]):
        assert f"{dataset.digest.hex}/train" in str(caught.value)


class Ahead(Loader):
    """Tells the place of what was made, not of what was taken."""

    def state_dict(self):
        made = 2 if self._ahead else 0
        size = self.schedule.size(self.step)
        return super().state_dict() | {"position": self.position + made * size, "step": self.step + made}


class Forgets(Loader):
    """Goes on from the step alone."""

    def load_state_dict(self, state):
        self.seek(state["step"])


def test_law_kills_states_of_what_was_made_ahead(corpus):
    resumes(corpus["plain"], 12, 3, {"prefetch": 2}, {})
    with pytest.raises(AssertionError):
        resumes(corpus["plain"], 12, 3, {"prefetch": 2}, {}, loader=Ahead)


def test_law_kills_positions_by_the_step(corpus):
    """Under another batch size the step is another place."""
    dataset = corpus["plain"]
    first = dataset.loader(12)
    expected = [next(first)["input_ids"] for _ in range(3)][2]
    state = first.state_dict() | {"position": 24, "step": 2}
    first.close()
    for kind, right in ((Loader, True), (Forgets, False)):
        with kind(dataset, 6) as second:
            second.load_state_dict(state)
            got = np.concatenate([next(second)["input_ids"] for _ in range(2)])
        assert (got == expected).all() == right


def test_a_split_of_another_name_is_another_stream(project):
    project.jsonl("a.jsonl", [{"text": f"{n} " + "z" * (n % 9)} for n in range(80)])
    recipe = """
dsbuild = 1
name = "splits"
[tokenizer]
file = "bytes"
[source.a]
files = "a.jsonl"
split = { train = 0.5, valid = 0.5 }
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { a = 1 }
[mixture.valid]
weights = { a = 1 }
[examples]
length = 16
"""
    project.write("recipe.toml", recipe)
    project.build()
    state = project.open("valid").loader(2).state_dict()
    train: Dataset = project.open("train")
    with pytest.raises(LockError, match=r"/valid, not of [0-9a-f]{64}/train"):
        train.loader(2).load_state_dict(state)
