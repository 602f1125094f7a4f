"""Builders and a collector at once: nothing that a living build uses vanishes, and nothing dead stays in the end."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.records import Column, Records, content_digest
from dsbuild.schema import Field, Schema
from dsbuild.store import Manifest, Realisation, Store, collect, verify

SCHEMA = Schema.of(Field(name="x", dtype="uint16"))
SECONDS = 3.0


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory where there is one: this test syncs hundreds of times."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield place
    shutil.rmtree(place)


def make_records(number: int) -> Records:
    return Records(schema=SCHEMA, columns={"x": Column(values=np.full(50, number, np.uint16))})


def build(store: Store, numbers: list[int]) -> int:
    """Build a node of one part a number, as a builder does; how many parts were there already."""
    data = json.dumps({"inputs": [], "numbers": numbers}).encode()
    digest, n, reused = of_bytes(Domain.DERIVATION, data), len(numbers), 0
    keys = [of_bytes(Domain.ACTION, bytes([number])) for number in numbers]
    with store.lease([digest]):
        store.put_derivation(digest, data)
        store.partial(digest, keys)
        contents: list[Digest] = []
        for number, key in zip(numbers, keys, strict=True):
            made = store.realisation(key)
            if made is not None and store.has_object(made.content):
                reused += 1
            else:
                content = store.write(SCHEMA, [make_records(number)]).content
                made = store.realise(key, Realisation(content=content, records=50))
            contents.append(made.content)
        store.publish_manifest(
            Manifest(
                derivation=digest,
                schema=SCHEMA,
                actions=np.frombuffer(b"".join(k.raw for k in keys), np.uint8).reshape(n, 32),
                contents=np.frombuffer(b"".join(c.raw for c in contents), np.uint8).reshape(n, 32),
                records=np.full(n, 50),
                elements={},
                longest={},
                part_segments=np.arange(n + 1),
                segment_file=np.zeros(n, np.int64),
                segment_first=np.zeros(n, np.int64),
            )
        )
        store.forget_partial(digest)
        for number, content in zip(numbers, contents, strict=True):
            found = store.object(content, verify="open")
            assert content_digest(found.records_view()) == content_digest(make_records(number))
    return reused


def test_at_once(root: Path) -> None:
    store = Store.open(root / "s", create=True)
    end, errors, reused = time.monotonic() + SECONDS, [], [0, 0]

    def work(who: int) -> None:
        rng = np.random.default_rng(who)
        try:
            while time.monotonic() < end and not errors:
                reused[who] += build(store, sorted(rng.choice(8, 3, replace=False).tolist()))
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    builders = [threading.Thread(target=work, args=(who,)) for who in (0, 1)]
    for builder in builders:
        builder.start()
    removed = 0
    while time.monotonic() < end and not errors:
        removed += collect(store, slack=0).dead_objects
        time.sleep(0.002)
    for builder in builders:
        builder.join()
    if errors:
        raise errors[0]
    assert sum(reused) > 0
    assert removed > 0
    assert verify(store, deep=True).damage == ()
    collect(store)
    assert [store.layout.names(kind) for kind in ("objects", "manifests")] == [[], []]
    for directory in ("tmp", "trash", "leases", "partial"):
        assert not list((store.root / directory).iterdir())
