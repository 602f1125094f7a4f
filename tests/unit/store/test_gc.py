"""Collecting: what roots, leases and unfinished builds need stays; all else goes, whole."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError, StorageError
from dsbuild.records import Records
from dsbuild.store import Disk, Manifest, Realisation, Store, collect, verify

Make = Callable[..., Records]
DAY = 24 * 3600.0


def action(name: str) -> Digest:
    return of_bytes(Domain.ACTION, name.encode())


def make_part(store: Store, make_records: Make, seed: int) -> tuple[Digest, Digest]:
    """(action, content) of a part."""
    records = make_records(20, seed)
    made = store.write(records.schema, [records])
    key = action(f"part {seed}")
    store.realise(key, Realisation(content=made.content, records=made.records))
    return key, made.content


def make_node(store: Store, make_records: Make, seeds: list[int], *needs: Digest) -> Digest:
    """A derivation with a manifest of one part for each seed."""
    parts = [make_part(store, make_records, seed) for seed in seeds]
    data = json.dumps({"inputs": {"a": [d.hex for d in needs], "b": "b3:x"}, "name": seeds}).encode()
    digest = of_bytes(Domain.DERIVATION, data)
    store.put_derivation(digest, data)
    n = len(parts)
    store.publish_manifest(
        Manifest(
            derivation=digest,
            schema=make_records(0).schema,
            actions=np.frombuffer(b"".join(k.raw for k, _ in parts), np.uint8).reshape(n, 32),
            contents=np.frombuffer(b"".join(c.raw for _, c in parts), np.uint8).reshape(n, 32),
            records=np.full(n, 20),
            elements={},
            longest={},
            part_segments=np.arange(n + 1),
            segment_file=np.zeros(n, np.int64),
            segment_first=np.zeros(n, np.int64),
        )
    )
    return digest


def names(store: Store) -> dict[str, int]:
    kinds = {"objects": "", "realisations": ".json", "manifests": "", "derivations": ".json"}
    return {kind: len(store.layout.names(kind, suffix)) for kind, suffix in kinds.items()}


def test_without_roots_all_goes(store: Store, make_records: Make) -> None:
    make_node(store, make_records, [1, 2])
    dry = collect(store, dry_run=True)
    assert (dry.dead_objects, dry.dead_realisations, dry.dead_manifests, dry.dead_derivations) == (2, 2, 1, 1)
    assert set(names(store).values()) == {1, 2}
    done: list[tuple[int, int]] = []
    report = collect(store, progress=lambda a, b: done.append((a, b)))
    assert (report.dead_objects, report.dead_bytes, report.kept_objects) == (2, dry.dead_bytes, 0)
    assert dry.dead_bytes > 0
    assert done[-1] == (2, 2)
    assert set(names(store).values()) == {0}
    assert not list((store.root / "trash").iterdir())
    assert not [p for p in (store.root / "objects").rglob("*") if p.is_file()]


def test_a_root_keeps_its_closure(store: Store, make_records: Make) -> None:
    deep = make_node(store, make_records, [1, 2])
    top = make_node(store, make_records, [2, 3], deep)
    make_node(store, make_records, [3, 4])
    store.roots.add("tiny", top)
    report = collect(store)
    assert (report.dead_objects, report.dead_realisations, report.kept_objects) == (1, 1, 3)
    assert dict(report.reasons) == dict.fromkeys((top, deep), "root tiny (generation 1)")
    assert names(store) == {"objects": 3, "realisations": 3, "manifests": 2, "derivations": 2}
    assert verify(store, deep=True).damage == ()
    store.roots.remove("tiny")
    assert collect(store).dead_objects == 3
    assert set(names(store).values()) == {0}


def test_every_generation_is_kept(store: Store, make_records: Make) -> None:
    for seed in (1, 2):
        store.roots.add("tiny", make_node(store, make_records, [seed]))
    report = collect(store, dry_run=True)
    assert (report.dead_objects, report.kept_objects) == (0, 2)
    assert report.kept_bytes is not None
    assert report.kept_bytes > 0


def test_realisations_of_live_content_are_kept(store: Store, make_records: Make) -> None:
    node = make_node(store, make_records, [1])
    manifest = store.manifest(node)
    assert manifest is not None
    store.realise(action("other way"), Realisation(content=manifest.content(0), records=20))
    store.realise(action("no object"), Realisation(content=Digest(b"n" * 32), records=20))
    store.roots.add("tiny", node)
    assert collect(store).dead_realisations == 1
    assert store.realisation(action("other way")) is not None
    assert store.realisation(action("no object")) is None


def test_leases(store: Store, make_records: Make) -> None:
    old = make_node(store, make_records, [1])
    other = make_node(store, make_records, [2])
    with store.lease([old], building=False) as held:
        report = collect(store)
        assert (report.dead_objects, report.kept_objects) == (1, 1)
        assert held.path is not None
        assert dict(report.reasons) == {old: f"lease {Path(held.path).name}"}
    assert not list((store.root / "leases").iterdir())
    assert store.derivation(other) is None
    assert collect(store).dead_objects == 1


def test_a_living_build_protects_what_is_published_meanwhile(store: Store, make_records: Make) -> None:
    make_node(store, make_records, [1])
    records = make_records(20, 2)
    found_again = store.write(records.schema, [records]).content
    time.sleep(0.05)
    with store.lease([]):
        key, content = make_part(store, make_records, 3)
        store.write(records.schema, [records])
        report = collect(store, slack=0)
        assert (report.dead_objects, report.kept_objects) == (1, 2)
        assert store.realisation(key) is not None
        assert store.has_object(content)
        assert store.has_object(found_again)
        assert collect(store, slack=3600).dead_objects == 0
    assert collect(store).dead_objects == 2


def test_unfinished_builds(store: Store, make_records: Make) -> None:
    key, content = make_part(store, make_records, 1)
    make_part(store, make_records, 2)
    node = of_bytes(Domain.DERIVATION, b"{}")
    store.partial(node, [key, action("not yet")])
    assert collect(store).dead_objects == 1
    assert store.has_object(content)
    assert collect(store, now=time.time() + 13 * DAY).dead_objects == 0
    assert collect(store, now=time.time() + 15 * DAY).dead_objects == 1
    assert not list((store.root / "partial").iterdir())
    store.partial(node, [])
    store.forget_partial(node)
    store.forget_partial(node)
    assert not list((store.root / "partial").iterdir())


HOLD = """
import sys, time
from pathlib import Path
from dsbuild.digest import Digest
from dsbuild.store import Store
store = Store.open(Path(sys.argv[1]))
with store.lease([Digest.parse(sys.argv[2])], building=False):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lease_dies_with_its_owner(store: Store, make_records: Make) -> None:
    node = make_node(store, make_records, [1])
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store.root), node.hex], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        assert collect(store).dead_objects == 0
        owner.kill()
        owner.wait()
    assert collect(store).dead_objects == 1
    assert not list((store.root / "leases").iterdir())


def test_leftovers_of_the_dead_go(store: Store) -> None:
    (store.root / "tmp" / "host-1-x" / "data.zarr").mkdir(parents=True)
    (store.root / "tmp" / "host-1-y").write_bytes(b"half")
    (store.root / "trash" / "host-1-z").mkdir()
    collect(store)
    assert not list((store.root / "tmp").iterdir())
    assert not list((store.root / "trash").iterdir())


def test_damage_that_may_hide_something_stops_it(store: Store, make_records: Make) -> None:
    node = make_node(store, make_records, [1])
    make_node(store, make_records, [2])
    store.roots.add("tiny", node)
    path = Path(store.layout.manifest(node))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    before = names(store)
    with pytest.raises(CorruptError):
        collect(store)
    Path(store.layout.derivation(node)).unlink()
    with pytest.raises(CorruptError, match="which is gone"):
        collect(store)
    assert names(store) == {**before, "derivations": before["derivations"] - 1}


def test_nothing_is_written_before_the_first_unlink(store: Store, make_records: Make) -> None:
    make_node(store, make_records, [1])
    calls: list[str] = []
    collect(Store.open(store.root, disk=Disk(before=lambda verb, path: calls.append(verb))))
    assert calls[0] == "unlink"
    assert calls.index("syncfs") < calls.index("rename")
    assert not {"create", "write", "mkdir", "link"} & set(calls)


def test_a_disk_too_full_to_rename(store: Store, make_records: Make) -> None:
    make_node(store, make_records, [1, 2])

    def refuse(verb: str, path: str) -> None:
        if verb not in ("unlink", "rmdir", "syncfs"):
            raise OSError(errno.ENOSPC, "full", path)

    report = collect(Store.open(store.root, disk=Disk(before=refuse)))
    assert report.dead_objects == 2
    assert report.dead_bytes > 0
    assert set(names(store).values()) == {0}


def test_a_store_for_reading_only(store: Store) -> None:
    reader = Store.open(store.root, readonly=True)
    assert collect(reader, dry_run=True).dead_objects == 0
    with pytest.raises(StorageError):
        collect(reader)


def test_a_forked_child_does_not_end_its_parents_lease(store: Store, make_records: Make) -> None:
    node = make_node(store, make_records, [1])
    with store.lease([node], building=False) as held:
        code = (
            "import os, sys\n"
            "from pathlib import Path\n"
            "from dsbuild.store import Store\n"
            "store = Store.open(Path(sys.argv[1]))\n"
            "with store.lease([], building=False):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        pass\n"
            "    else:\n"
            "        os.waitpid(child, 0)\n"
            "        assert len(os.listdir(sys.argv[1] + '/leases')) == 2\n"
        )
        subprocess.run([sys.executable, "-c", code, str(store.root)], check=True)
        assert held.path is not None
        assert list((store.root / "leases").iterdir()) == [Path(held.path)]
