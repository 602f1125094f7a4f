"""A crash before every single call that changes the disk: nothing half is ever seen, and a second try works."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.records import Column, Records, content_digest
from dsbuild.schema import Field, Schema
from dsbuild.store import Disk, Manifest, Realisation, Store, collect, objects, verify

SCHEMA = Schema.of(Field(name="input_ids", dtype="uint16", shape=(None,)))
DATA = b'{"inputs":[]}'
DERIVATION, KEY = of_bytes(Domain.DERIVATION, DATA), of_bytes(Domain.ACTION, b"a")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory where there is one: these tests sync hundreds of times."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield place
    shutil.rmtree(place)


class CrashError(BaseException):
    """The process is gone: it does nothing more, not even clean up."""


def crash_before(n: int) -> Callable[[str, str], None]:
    count = 0

    def before(verb: str, path: str) -> None:
        nonlocal count
        count += 1
        if count >= n:
            raise CrashError(f"{verb} {path}")

    return before


def make_records(seed: int = 0) -> Records:
    values = np.random.default_rng(seed).integers(0, 60000, 60_000).astype(np.uint16)
    return Records(schema=SCHEMA, columns={"input_ids": Column(values=values, offsets=np.array([0, 9, 60_000]))})


def build(store: Store) -> None:
    """All that a build of one part publishes, under its lease."""
    with store.lease([DERIVATION]):
        store.put_derivation(DERIVATION, DATA)
        store.partial(DERIVATION, [KEY])
        made = store.write(SCHEMA, [make_records()])
        store.realise(KEY, Realisation(content=made.content, records=made.records))
        store.publish_manifest(
            Manifest(
                derivation=DERIVATION,
                schema=SCHEMA,
                actions=np.frombuffer(KEY.raw, np.uint8).reshape(1, 32),
                contents=np.frombuffer(made.content.raw, np.uint8).reshape(1, 32),
                records=np.array([2]),
                elements={"input_ids": np.array([60_000])},
                longest={"input_ids": np.array([59_991])},
                part_segments=np.array([0, 1]),
                segment_file=np.array([0]),
                segment_first=np.array([0]),
            )
        )
        store.roots.add("tiny", DERIVATION)
        store.forget_partial(DERIVATION)


def check_whole_or_absent(store: Store) -> None:
    """What refers to something finds it, whole."""
    assert verify(store, deep=True).damage == ()
    made, manifest = store.realisation(KEY), store.manifest(DERIVATION)
    assert manifest is None or made is not None
    if made is not None:
        assert content_digest(store.object(made.content).records_view()) == made.content
    for root in store.roots.list():
        assert store.derivation(root.digest) == DATA
        assert manifest is not None


def crash_everywhere(work: Callable[[Store], None], prepare: Callable[[Path], None], root: Path) -> int:
    """Crash ``work`` before each of its calls in a fresh store, check, and do it again; the number of crash points."""
    n = 0
    while True:
        n += 1
        prepare(root / str(n))
        try:
            work(Store.open(root / str(n), disk=Disk(before=crash_before(n))))
        except CrashError:
            store = Store.open(root / str(n))
            check_whole_or_absent(store)
            work(store)
            check_whole_or_absent(store)
            collect(store)
            check_whole_or_absent(store)
            assert not [*(store.root / "tmp").iterdir(), *(store.root / "trash").iterdir()]
            assert not list((store.root / "leases").iterdir())
            continue
        return n - 1


def test_publish(root: Path) -> None:
    def prepare(root: Path) -> None:
        Store.open(root, create=True)

    def work(store: Store) -> None:
        build(store)

    assert crash_everywhere(work, prepare, root) > 60
    assert Store.open(root / "20").roots.list()[0].digest == DERIVATION


def test_publish_then_collect_at_once(root: Path) -> None:
    """After a crash a collector comes before the second try."""
    n = 0
    while True:
        n += 1
        store = Store.open(root / str(n), create=True)
        try:
            build(Store.open(store.root, disk=Disk(before=crash_before(n))))
        except CrashError:
            collect(store)
            check_whole_or_absent(store)
            build(store)
            check_whole_or_absent(store)
            assert store.object(content_digest(make_records())).records == 2
            continue
        break


def test_collect(root: Path) -> None:
    def prepare(root: Path) -> None:
        store = Store.open(root, create=True)
        build(store)
        store.roots.remove("tiny")
        for seed in (1, 2):
            made = store.write(SCHEMA, [make_records(seed)])
            store.realise(Digest(bytes([seed]) * 32), Realisation(content=made.content, records=2))
        (store.root / "tmp" / "host-1-a").mkdir()
        (store.root / "tmp" / "host-1-a" / "x").touch()
        (store.root / "tmp" / "host-1-b").touch()

    assert crash_everywhere(collect, prepare, root) > 30


def test_create(root: Path) -> None:
    n = 0
    while True:
        n += 1
        place = root / str(n) / "deep" / "store"
        try:
            Store.open(place, create=True, disk=Disk(before=crash_before(n)))
        except CrashError:
            build(Store.open(place, create=True))
            continue
        break
    assert n > 10


def test_mutant_that_records_before_the_object_is_killed(root: Path) -> None:
    """The check above must reject a builder that says a part is done before it is."""

    def wrong(store: Store) -> None:
        content = content_digest(make_records())
        store.realise(KEY, Realisation(content=content, records=2))
        store.write(SCHEMA, [make_records()])

    with pytest.raises(Exception, match="not in the store"):
        crash_everywhere(wrong, lambda root: Store.open(root, create=True) and None, root)


def test_mutant_that_writes_in_place_is_killed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor may an object grow where readers look."""

    def in_place(layout, disk, part, content):  # type: ignore[no-untyped-def]
        home = layout.encoding(content, Digest(bytes(32)))
        Path(home).mkdir(parents=True)
        writer = objects._Writer(disk, home)
        writer.part(part)
        return writer.finish(content)

    monkeypatch.setattr(objects, "_publish", in_place)
    with pytest.raises(AssertionError):
        crash_everywhere(
            lambda store: store.write(SCHEMA, [make_records()]) and None,
            lambda root: Store.open(root, create=True) and None,
            root,
        )


def test_a_lost_race_is_won_by_the_first(root: Path) -> None:
    """Another process publishes the same things between our look and our link or rename."""
    rival = Store.open(root / "s", create=True)

    def before(verb: str, path: str) -> None:
        if verb == "syncfs" and not rival.has_object(content_digest(make_records())):
            rival.write(SCHEMA, [make_records()])
        if verb == "link" and not Path(path).exists():
            if path == rival.layout.realisation(KEY):
                rival.realise(KEY, Realisation(content=content_digest(make_records()), records=2))
            elif path == rival.layout.derivation(DERIVATION):
                rival.put_derivation(DERIVATION, DATA)

    build(Store.open(rival.root, disk=Disk(before=before)))
    check_whole_or_absent(rival)
    assert not list((rival.root / "tmp").iterdir())
