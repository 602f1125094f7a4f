"""Every kind of damage to every kind of file is found: by the reader or by verify, and never as wrong data."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dsbuild.digest import Domain, of_bytes
from dsbuild.errors import CorruptError, DsbuildError, NotFoundError, StorageError
from dsbuild.records import Column, Records, content_digest
from dsbuild.schema import Field, Schema
from dsbuild.store import Manifest, Realisation, Store, verify

SCHEMA = Schema.of(Field(name="input_ids", dtype="uint16", shape=(None,)), Field(name="text", dtype="text"))
DERIVATIONS = [b'{"inputs":[]}', b'{"inputs":["x"]}']


def make_records(seed: int) -> Records:
    rng = np.random.default_rng(seed)
    offsets = np.arange(101) * 900
    ids = rng.integers(0, 60000, 90_000).astype(np.uint16)
    texts = [str(rng.integers(0, 999)) for _ in range(100)]
    return Records(
        schema=SCHEMA, columns={"input_ids": Column(values=ids, offsets=offsets), "text": Column(values=texts)}
    )


def fill(root: Path) -> Store:
    """A store with two nodes of one part each, of equal shapes, both with roots."""
    store = Store.open(root, create=True)
    for seed, data in enumerate(DERIVATIONS):
        digest, key = of_bytes(Domain.DERIVATION, data), of_bytes(Domain.ACTION, data)
        made = store.write(SCHEMA, [make_records(seed)])
        store.realise(key, Realisation(content=made.content, records=100))
        store.put_derivation(digest, data)
        store.put_cut_table(key, data)
        store.partial(digest, [key])
        store.publish_manifest(
            Manifest(
                derivation=digest,
                schema=SCHEMA,
                actions=np.frombuffer(key.raw, np.uint8).reshape(1, 32),
                contents=np.frombuffer(made.content.raw, np.uint8).reshape(1, 32),
                records=np.array([100]),
                elements={"input_ids": np.array([90_000])},
                longest={"input_ids": np.array([900])},
                part_segments=np.array([0, 1]),
                segment_file=np.array([0]),
                segment_first=np.array([0]),
            )
        )
        store.roots.add(f"root{seed}", digest)
    return store


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "store"
    fill(root)
    return root


def flip(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def truncate(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path, other: Path) -> None:
    path.unlink()


def swap(path: Path, other: Path) -> None:
    a, b = path.read_bytes(), other.read_bytes()
    path.write_bytes(b)
    other.write_bytes(a)


def zero(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    data[:4096] = bytes(len(data[:4096]))
    path.write_bytes(data)


def append(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


ACTIONS = {f.__name__: f for f in (flip, truncate, empty, delete, swap, zero, append)}
PLACES = {
    "chunk": "objects/*/*/*/data.zarr/input_ids/values/c.0",
    "offsets": "objects/*/*/*/data.zarr/input_ids/offsets/c.0",
    "array": "objects/*/*/*/data.zarr/text/values/zarr.json",
    "group": "objects/*/*/*/data.zarr/zarr.json",
    "files": "objects/*/*/*/files",
    "blocks": "objects/*/*/*/blocks",
    "manifest": "manifests/*/*",
    "realisation": "realisations/*/*",
    "derivation": "derivations/*/*",
    "root": "roots/*/1",
    "partial": "partial/*",
    "cuts": "cuts/*/*",
    "format": "format",
}
HARMLESS = {("cuts", "delete"), ("partial", "delete")}
"""What no one can miss: these files may go at any time."""


def read_all(store: Store) -> None:
    """Read everything as a build and a loader would; raises, or all of it is right."""
    for seed, data in enumerate(DERIVATIONS):
        digest, key = of_bytes(Domain.DERIVATION, data), of_bytes(Domain.ACTION, data)
        assert store.derivation(digest) in (data, None)
        assert store.cut_table(key) in (data, None)
        manifest, made = store.manifest(digest), store.realisation(key)
        expected = content_digest(make_records(seed))
        assert made is None or made.content == expected
        if manifest is None:
            raise NotFoundError("not built", kind="not-built")
        assert manifest.content(0) == expected
        assert content_digest(store.object(manifest.content(0)).records_view()) == expected


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_found(sound: Path, tmp_path: Path, place: str, action: str) -> None:
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    paths = sorted(root.glob(PLACES[place]))
    for path in paths:
        path.chmod(0o644)
    if action == "swap" and (len(paths) < 2 or paths[0].read_bytes() == paths[1].read_bytes()):
        pytest.skip("nothing to swap")
    ACTIONS[action](paths[0], paths[-1])
    if place == "format":
        with pytest.raises((CorruptError, StorageError, NotFoundError)):
            Store.open(root)
        return
    store = Store.open(root)
    reader = None
    try:
        read_all(store)
    except DsbuildError as error:
        reader = error
    damage = verify(store).damage
    assert bool(damage or reader) != ((place, action) in HARMLESS)
    if damage and place in ("chunk", "offsets", "group", "files", "manifest", "blocks") and action != "append":
        assert reader is not None
    assert all((root / d.path).exists() or action == "delete" for d in damage)
    if place in ("chunk", "offsets", "array", "group", "files", "blocks"):
        assert any(str(paths[0].relative_to(root)).startswith(d.path.removesuffix("/files")) for d in damage)


def test_negative_control(sound: Path) -> None:
    store = Store.open(sound)
    read_all(store)
    assert verify(store, deep=True).damage == ()


def test_a_loader_names_the_place(sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(sound, root)
    store = Store.open(root)
    content = content_digest(make_records(0))
    path = Path(store.object(content).path) / "data.zarr" / "input_ids" / "values" / "c.0"
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[150_000] ^= 1
    path.write_bytes(data)
    found = store.object(content)
    with pytest.raises(CorruptError, match=rf"object {content.short}: column 'input_ids': \S*c\.0, block 2 "):
        found.touch("input_ids", 0, 90_000)
