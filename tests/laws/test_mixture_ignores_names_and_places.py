"""Law: the order of the sources' table does not matter, and an added source keeps the others' relative order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.digest import Domain, of_bytes
from dsbuild.order.mix import Mixture, Stage
from dsbuild.order.weights import phase_seed


def by_id(number, place):
    return phase_seed(5, 0, of_bytes(Domain.FILE, bytes([number])))


def by_place(number, place):
    return phase_seed(5, 0, of_bytes(Domain.FILE, bytes([place])))


def stream(sources, phase, until="all"):
    """(number of the source, k) of all positions; ``sources``: number -> weight, in the order of the table."""
    ids = tuple(of_bytes(Domain.FILE, bytes([number])).raw for number in sources)
    phases = tuple(phase(number, place) for place, number in enumerate(sources))
    stage = Stage(first=0, weights=tuple(sources.values()), phases=phases)
    lengths = tuple(20 + number for number in sources)
    mixture = Mixture(ids=ids, lengths=lengths, stages=(stage,), until=until)
    chosen, ordinals = mixture.locate(0, min(mixture.length, 3000))
    return list(zip(np.array(list(sources))[chosen].tolist(), ordinals.tolist(), strict=True))


def same_in_any_table(sources, order, phase=by_id):
    moved = {number: sources[number] for number in order}
    assert stream(moved, phase) == stream(sources, phase)


def keeps_the_others(sources, added, weight, phase=by_id):
    before = stream(sources, phase)
    after = [item for item in stream({added: weight, **sources}, phase) if item[0] != added]
    shared = min(len(before), len(after))
    assert shared > 5 and after[:shared] == before[:shared]


SOURCES = st.dictionaries(st.integers(0, 20), st.integers(1, 50), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(SOURCES, st.data())
def test_tables_in_any_order(sources, data):
    same_in_any_table(sources, data.draw(st.permutations(list(sources))))


@settings(max_examples=60, deadline=None)
@given(SOURCES, st.integers(21, 30), st.integers(1, 50))
def test_an_added_source(sources, added, weight):
    keeps_the_others(sources, added, weight)


def test_laws_kill_phases_by_place():
    with pytest.raises(AssertionError):
        same_in_any_table({1: 3, 2: 4}, [2, 1], by_place)
    with pytest.raises(AssertionError):
        keeps_the_others({1: 3, 2: 4}, 3, 5, by_place)
