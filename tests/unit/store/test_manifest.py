"""Manifests: arrays round trip through the mapped file; damage is seen; they never change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NonDeterministicError
from dsbuild.schema import Field, Schema
from dsbuild.store import Manifest, Store

DERIVATION = Digest(b"d" * 32)


def make(n: int, seed: int = 0, derivation: Digest = DERIVATION) -> Manifest:
    rng = np.random.default_rng(seed)
    return Manifest(
        derivation=derivation,
        schema=Schema.of(Field(name="input_ids", dtype="uint16", shape=(None,)), Field(name="text", dtype="text")),
        actions=rng.integers(0, 256, (n, 32)).astype(np.uint8),
        contents=rng.integers(0, 256, (n, 32)).astype(np.uint8),
        records=rng.integers(0, 100, n),
        elements={"input_ids": rng.integers(0, 1000, n), "text": rng.integers(0, 1000, n)},
        longest={"input_ids": rng.integers(0, 100, n), "text": rng.integers(0, 100, n)},
        part_segments=np.arange(n + 1) * 2,
        segment_file=np.arange(2 * n),
        segment_first=np.zeros(2 * n, np.int64),
    )


@pytest.mark.parametrize("n", [0, 1, 1000, 3000])
def test_round_trip(store: Store, n: int) -> None:
    made = make(n)
    assert store.manifest(DERIVATION) is None
    store.publish_manifest(made)
    store.publish_manifest(made)
    found = store.manifest(DERIVATION)
    assert found is not None
    assert (found.derivation, found.schema, len(found)) == (DERIVATION, made.schema, n)
    for name in ("actions", "contents", "records", "part_segments", "segment_file", "segment_first", "record_starts"):
        assert np.array_equal(getattr(found, name), getattr(made, name))
        assert not getattr(found, name).flags.writeable
    assert found.total == made.records.sum()
    assert found.element_starts("text").tolist() == [0, *np.cumsum(made.elements["text"]).tolist()]
    assert np.array_equal(found.longest["text"], made.longest["text"])
    if n:
        assert found.content(n - 1).raw == made.contents[-1].tobytes()
        assert found.action(0).raw == made.actions[0].tobytes()


def test_file_is_aligned(store: Store) -> None:
    store.publish_manifest(make(7))
    data = Path(store.layout.manifest(DERIVATION)).read_bytes()
    assert (data.index(b"\n") + 1) % 64 == 0


def test_another_content_is_refused(store: Store) -> None:
    store.publish_manifest(make(3))
    with pytest.raises(NonDeterministicError, match="part 0"):
        store.publish_manifest(make(3, seed=1))
    with pytest.raises(NonDeterministicError):
        store.publish_manifest(make(2))


def test_wrong_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="records"):
        Manifest(**{**_fields(make(3)), "records": np.zeros(3, np.int32), "starts": {}})
    with pytest.raises(ValueError, match="contents"):
        Manifest(**{**_fields(make(3)), "contents": np.zeros((2, 32), np.uint8)})


def _fields(made: Manifest) -> dict:  # type: ignore[type-arg]
    return {name: getattr(made, name) for name in Manifest.__dataclass_fields__}


@pytest.mark.parametrize("at", [0, 5, 80, 200, -1, -4000])
def test_flips_are_seen(store: Store, at: int) -> None:
    store.publish_manifest(make(500))
    path = Path(store.layout.manifest(DERIVATION))
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="manifests/64/"):
        store.manifest(DERIVATION)
    store.publish_manifest(make(500))
    assert store.manifest(DERIVATION) is not None


@pytest.mark.parametrize("cut", [0, 1, 63, 1000, -1])
def test_cut_files_are_seen(store: Store, cut: int) -> None:
    store.publish_manifest(make(500))
    path = Path(store.layout.manifest(DERIVATION))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CorruptError):
        store.manifest(DERIVATION)


def test_a_manifest_of_another_derivation_is_seen(store: Store) -> None:
    other = Digest(b"d" * 31 + b"e")
    store.publish_manifest(make(3))
    store.publish_manifest(make(3, derivation=other))
    Path(store.layout.manifest(other)).rename(store.layout.manifest(DERIVATION))
    with pytest.raises(CorruptError, match="is the manifest of"):
        store.manifest(DERIVATION)
