"""Collecting: remove what is dead. References go before what they point to, and nothing is written before that.

Under the exclusive lock: mark, unlink dead manifests and realisations, make that durable, rename dead objects into
``trash/``. Outside it: delete. A crash at any point leaves only things that nothing refers to; the next run takes them.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, StorageError
from dsbuild.store import manifest, realisation
from dsbuild.store.disk import Disk, refusals
from dsbuild.store.layout import Layout
from dsbuild.store.locks import builders, collector, is_held
from dsbuild.store.mark import Alive, mark, rows
from dsbuild.store.store import Store

SLACK = 3600.0
"""Seconds by which a clock may be set back during a build without harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What ``collect`` removed (or would), and why the rest stays: (derivation, reason) for each that is alive.

    Sizes are sums of file sizes; ``kept_bytes`` is measured in a dry run only.
    """

    dead_objects: int
    dead_bytes: int
    dead_realisations: int
    dead_manifests: int
    dead_derivations: int
    kept_objects: int
    kept_bytes: int | None
    reasons: tuple[tuple[Digest, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dead:
    manifests: list[Digest]
    realisations: list[Digest]
    objects: list[Digest]
    derivations: list[Digest]
    kept: list[Digest]


def collect(
    store: Store,
    *,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
    now: float | None = None,
    slack: float = SLACK,
) -> GcReport:
    """Remove what no root, living lease or unfinished build needs. Safe beside builders and readers.

    ``progress`` is called with (objects deleted, objects to delete); ``now``: seconds since the epoch, for tests.
    Raises ``CorruptError``, before it removes anything, where damage hides what is alive.
    """
    layout, disk = store.layout, store.disk
    moment = int((time.time() if now is None else now) * 1e9)
    if dry_run:
        with refusals(layout.root, "looking for what is dead"), builders(layout):
            alive = mark(layout, now=moment, slack=int(slack * 1e9))
            dead = _sort(layout, alive)
        size = sum(tree_size(layout.contents(content)) for content in dead.objects)
        return _report(alive, dead, size, sum(tree_size(layout.contents(content)) for content in dead.kept))
    if store.readonly:
        raise StorageError(f"{store.root}: opened for reading only", kind="read-only", hint="open it for writing")
    with refusals(layout.root, "collecting"):
        with collector(layout):
            alive = mark(layout, now=moment, slack=int(slack * 1e9))
            dead = _sort(layout, alive)
            size = _bury(layout, disk, alive, dead)
        size += _empty_trash(layout, disk, progress)
    return _report(alive, dead, size, None)


def _report(alive: Alive, dead: _Dead, size: int, kept: int | None) -> GcReport:
    return GcReport(
        dead_objects=len(dead.objects),
        dead_bytes=size,
        dead_realisations=len(dead.realisations),
        dead_manifests=len(dead.manifests),
        dead_derivations=len(dead.derivations),
        kept_objects=len(dead.kept),
        kept_bytes=kept,
        reasons=tuple(alive.reasons.items()),
    )


def _sort(layout: Layout, alive: Alive) -> _Dead:
    """Everything of the store that is dead. What is fresh keeps what it refers to."""
    manifests = []
    for digest in layout.names("manifests"):
        if digest not in alive.reasons:
            if alive.is_fresh(layout.manifest(digest)):
                found = manifest.find(layout, digest)
                alive.contents.update(() if found is None else rows(found.contents))
                alive.actions.update(() if found is None else rows(found.actions))
            else:
                manifests.append(digest)
    doubtful = []
    for key in layout.names("realisations", ".json"):
        if key.raw not in alive.actions:
            target = _content(layout, key)
            if target is not None and alive.is_fresh(layout.realisation(key)):
                alive.contents.add(target)
            else:
                doubtful.append((key, target))
    objects, kept = [], []
    for content in layout.names("objects"):
        if content.raw in alive.contents or alive.is_fresh(layout.contents(content)):
            alive.contents.add(content.raw)
            kept.append(content)
        else:
            objects.append(content)
    return _Dead(
        manifests=manifests,
        realisations=[key for key, target in doubtful if target not in alive.contents],
        objects=objects,
        derivations=[
            digest
            for digest in layout.names("derivations", ".json")
            if digest not in alive.reasons and not alive.is_fresh(layout.derivation(digest))
        ],
        kept=kept,
    )


def _content(layout: Layout, key: Digest) -> bytes | None:
    """What a realisation points to; None where it is damaged: then it is dead, and the next build makes it again."""
    try:
        found = realisation.find(layout, key)
    except CorruptError:
        return None
    return None if found is None else found.content.raw


def _bury(layout: Layout, disk: Disk, alive: Alive, dead: _Dead) -> int:
    """Remove references, then move objects to the trash; bytes that had to be deleted here and now."""
    for path in alive.stale:
        disk.unlink(path)
    for digest in dead.manifests:
        disk.unlink(layout.manifest(digest))
    for key in dead.realisations:
        disk.unlink(layout.realisation(key))
    if dead.objects and (dead.manifests or dead.realisations):
        disk.syncfs(layout.root)
    size = sum(_discard(layout, disk, layout.contents(content)) for content in dead.objects)
    for digest in dead.derivations:
        disk.unlink(layout.derivation(digest))
    for name in layout.entries("tmp"):
        path = f"{layout.root}/tmp/{name}"
        if not is_held(path):  # its writer is dead: living ones hold their directory, and files need our lock
            size += _discard(layout, disk, path)
    return size


def _discard(layout: Layout, disk: Disk, path: str) -> int:
    """Rename ``path`` into the trash; on a disk too full even for that, delete it at once: bytes deleted."""
    try:
        disk.rename(path, layout.fresh("trash"))
    except FileNotFoundError:
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        size = tree_size(path)
        for entry in os.listdir(path) if os.path.isdir(path) else ():
            disk.unlink(f"{path}/{entry}/files")  # first, so that what is left is no object
        disk.remove_tree(path)
        return size
    return 0


def _empty_trash(layout: Layout, disk: Disk, progress: Callable[[int, int], None] | None) -> int:
    names, size = layout.entries("trash"), 0
    for done, name in enumerate(names):
        path = f"{layout.root}/trash/{name}"
        size += tree_size(path)
        disk.remove_tree(path)
        if progress is not None:
            progress(done + 1, len(names))
    return size


def tree_size(path: str) -> int:
    """Sum of the sizes of the files below ``path``; what vanishes meanwhile counts as nothing."""
    size = 0
    with suppress(FileNotFoundError):
        if not os.path.isdir(path):
            return os.stat(path).st_size
        for entry in os.scandir(path):
            with suppress(FileNotFoundError):
                directory = entry.is_dir(follow_symlinks=False)
                size += tree_size(entry.path) if directory else entry.stat(follow_symlinks=False).st_size
    return size
