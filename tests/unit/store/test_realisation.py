"""Realisations are create-only and notice damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NonDeterministicError
from dsbuild.store import Realisation, Store

KEY, OTHER = Digest(b"a" * 32), Digest(b"b" * 32)
MADE = Realisation(
    content=Digest(b"c" * 32),
    records=3,
    elements={"input_ids": 10},
    longest={"input_ids": 7},
    skipped=2,
    skips=({"record": 1, "place": "line 2", "reason": "é"},),
    provenance={"seconds": 0.25, "host": "h", "none": None},
)


def test_round_trip(store: Store) -> None:
    assert store.realisation(KEY) is None
    assert store.realise(KEY, MADE) == MADE
    assert store.realisation(KEY) == MADE


def test_the_first_one_stays(store: Store) -> None:
    store.realise(KEY, MADE)
    later = Realisation(content=MADE.content, records=3, provenance={"host": "other"})
    assert store.realise(KEY, later) == MADE
    with pytest.raises(NonDeterministicError, match="gave content"):
        store.realise(KEY, Realisation(content=OTHER, records=3))
    assert store.realisation(KEY) == MADE


def test_nan_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store.realise(KEY, Realisation(content=OTHER, records=0, provenance={"x": float("nan")}))


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: b"", lambda d: d.replace(b":3,", b":4,"), lambda d: d + d]
)
def test_damage_is_seen_and_mended_by_the_next_one(store: Store, damage) -> None:  # type: ignore[no-untyped-def]
    store.realise(KEY, MADE)
    path = Path(store.layout.realisation(KEY))
    path.chmod(0o644)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptError, match="realisations/61/"):
        store.realisation(KEY)
    assert store.realise(KEY, MADE) == MADE


def test_swapped_files_are_seen(store: Store) -> None:
    store.realise(KEY, MADE)
    store.realise(OTHER, Realisation(content=OTHER, records=1))
    Path(store.layout.realisation(OTHER)).rename(store.layout.realisation(KEY))
    with pytest.raises(CorruptError, match="is the realisation of"):
        store.realisation(KEY)
