"""Mark: what of a store is alive, and why. Alive is what roots, leases and unfinished builds need; the rest is dead.

Safe because it stops at the first damage that could hide something alive, and because whatever changed since the oldest
living build began is alive: a build may have found or published it and not yet said so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError
from dsbuild.store import lease, manifest, realisation
from dsbuild.store.disk import Disk
from dsbuild.store.layout import Layout
from dsbuild.store.lease import PARTIAL_DAYS
from dsbuild.store.locks import is_held
from dsbuild.store.publish import read
from dsbuild.store.roots import Roots

_DAY_NS = 24 * 3600 * 10**9


@dataclass(slots=True)
class Alive:
    """What is alive, while it is being found. ``reasons``: why, by derivation; ``contents``, ``actions``: raw digests.

    ``since``: time in ns from which on every change is alive, None without living builds. ``stale``: paths of leases
    and unfinished builds that protect nothing any more.
    """

    reasons: dict[Digest, str] = field(default_factory=dict)
    contents: set[bytes] = field(default_factory=set)
    actions: set[bytes] = field(default_factory=set)
    since: int | None = None
    stale: list[str] = field(default_factory=list)

    def is_fresh(self, path: str) -> bool:
        """Whether ``path`` changed since the oldest living build began."""
        try:
            return self.since is not None and os.stat(path).st_ctime_ns >= self.since
        except FileNotFoundError:
            return False


def mark(layout: Layout, *, now: int, slack: int) -> Alive:
    """All that is alive. ``now``, ``slack``: ns; a clock may have been set back by ``slack`` during a build.

    Call it under a lock. Raises ``CorruptError`` where damage hides what is alive.
    """
    alive = Alive()
    for root in Roots(layout, Disk()).list():
        if not os.path.exists(layout.derivation(root.digest)):
            raise CorruptError(
                f"root {root.name!r} generation {root.generation}: names derivation {root.digest.short}, which is gone",
                kind="corrupt",
                hint=f"build it again, or 'dsbuild root remove {root.name}'",
            )
        _reach(layout, alive, root.digest, f"root {root.name} (generation {root.generation})")
    _mark_leases(layout, alive, slack)
    _mark_partials(layout, alive, now)
    for digest in list(alive.reasons):
        _mark_manifest(layout, alive, digest)
    return alive


def inputs(layout: Layout, digest: Digest) -> list[Digest]:
    """The digests that a derivation names as inputs, those of derivations among them; none if it is not there."""
    path = layout.derivation(digest)
    data = read(path)
    if data is None:
        return []
    if of_bytes(Domain.DERIVATION, data) != digest:
        raise CorruptError(f"{path}: its bytes differ from what was published", kind="corrupt")
    return list(_digests(json.loads(data).get("inputs")))


def _digests(value: Any) -> Iterator[Digest]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _digests(item)
    elif isinstance(value, str):
        try:
            yield Digest.parse(value)
        except ValueError:
            return


def _reach(layout: Layout, alive: Alive, start: Digest, reason: str) -> None:
    todo = [start]
    while todo:
        digest = todo.pop()
        if digest not in alive.reasons:
            alive.reasons[digest] = reason
            todo += inputs(layout, digest)


def _mark_leases(layout: Layout, alive: Alive, slack: int) -> None:
    for name in layout.entries("leases"):
        path = f"{layout.root}/leases/{name}"
        if not is_held(path):
            alive.stale.append(path)
            continue
        began, held = _changed(path), lease.parse(path)
        if began is None or held is None:
            continue  # it ended meanwhile
        for digest in held.derivations:
            _reach(layout, alive, digest, f"lease {name}")
        if held.building:
            alive.since = min(began - slack, alive.since if alive.since is not None else began)


def _mark_partials(layout: Layout, alive: Alive, now: int) -> None:
    for name in layout.entries("partial"):
        path = f"{layout.root}/partial/{name}"
        try:
            derivation = Digest.parse(name)
        except ValueError:
            raise CorruptError(f"{path}: not the name of a derivation", kind="corrupt") from None
        changed = _changed(path)
        if changed is None:
            continue  # it ended meanwhile; its manifest came before that
        if now - changed > PARTIAL_DAYS * _DAY_NS:
            alive.stale.append(path)
            continue
        _reach(layout, alive, derivation, f"unfinished build (kept {PARTIAL_DAYS} days after its last change)")
        for action in lease.partial_actions(layout, derivation) or []:
            alive.actions.add(action.raw)
            found = realisation.find(layout, action)
            if found is not None:
                alive.contents.add(found.content.raw)


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None


def _mark_manifest(layout: Layout, alive: Alive, digest: Digest) -> None:
    found = manifest.find(layout, digest)
    if found is not None:
        alive.actions.update(rows(found.actions))
        alive.contents.update(rows(found.contents))


def rows(array: np.ndarray) -> Iterator[bytes]:
    """The digests in uint8[n, 32]."""
    data = array.tobytes()
    return (data[i : i + 32] for i in range(0, len(data), 32))
