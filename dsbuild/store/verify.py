"""Verify: compare every byte of a store with what was published, and name each difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.store import lease
from dsbuild.store.compare import Check, Damage
from dsbuild.store.cuts import read_cut_table
from dsbuild.store.disk import Disk
from dsbuild.store.layout import Layout
from dsbuild.store.mark import inputs
from dsbuild.store.roots import Roots
from dsbuild.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was looked at (``bytes``: of the objects) and all ``damage``."""

    objects: int
    bytes: int
    manifests: int
    realisations: int
    derivations: int
    damage: tuple[Damage, ...]


def verify(
    store: Store,
    digests: Sequence[Digest] | None = None,
    *,
    quick: bool = False,
    sample: Fraction | None = None,
    deep: bool = False,
    salt: bytes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyReport:
    """Compare the store, or the closure of the derivations ``digests``, with what was published.

    ``quick``: presence, sizes and small files only. ``sample``: share of the objects, chosen anew each time unless
    ``salt`` is given. ``deep``: compute content digests anew from the columns. ``progress``: (objects done, all).
    """
    layout = store.layout
    salt = os.urandom(16) if salt is None else salt
    check = Check(layout, quick, deep)
    derivations = layout.names("derivations", ".json") if digests is None else _closure(check, digests)
    manifests = (
        layout.names("manifests") if digests is None else [d for d in derivations if os.path.exists(layout.manifest(d))]
    )
    needed: set[bytes] = set()
    actions: dict[bytes, bytes] = {}
    if digests is None:
        for digest in derivations:
            check.derivation(digest)
        _check_names(check)
    for digest in manifests:
        some, others = check.manifest(digest)
        needed |= some
        actions |= others
    keys = {key.raw for key in layout.names("realisations", ".json")} if digests is None else set()
    for key in sorted(keys | set(actions)):
        check.realisation(Digest(key), actions.get(key))
    there = {content.raw for content in layout.names("objects")} if digests is None else set()
    chosen = [Digest(c) for c in sorted(needed | there) if sample is None or _is_chosen(c, sample, salt)]
    for done, content in enumerate(chosen):
        check.object(content, needed=content.raw in needed)
        if progress is not None:
            progress(done + 1, len(chosen))
    return VerifyReport(
        objects=len(chosen),
        bytes=check.seen,
        manifests=len(manifests),
        realisations=len(keys | set(actions)),
        derivations=len(derivations),
        damage=tuple(check.damage),
    )


def _is_chosen(content: bytes, sample: Fraction, salt: bytes) -> bool:
    number = int.from_bytes(of_bytes(Domain.FILE, salt + content).raw[:8], "little")
    return number * sample.denominator < (sample.numerator << 64)


def _closure(check: Check, digests: Sequence[Digest]) -> list[Digest]:
    seen: dict[Digest, None] = {}
    todo = list(digests)
    while todo:
        digest = todo.pop()
        if digest in seen or (digest not in digests and not os.path.exists(check.layout.derivation(digest))):
            continue
        seen[digest] = None
        path = check.layout.derivation(digest)
        check.attempt(f"derivation {digest.short}", path, partial(_extend, todo, check.layout, digest))
    return list(seen)


def _extend(todo: list[Digest], layout: Layout, digest: Digest) -> None:
    todo += inputs(layout, digest)


def _check_names(check: Check) -> None:
    """Roots, unfinished builds and cut tables."""
    layout, roots = check.layout, Roots(check.layout, Disk())
    for name in layout.entries("roots"):
        check.attempt(f"root {name!r}", f"{layout.root}/roots/{name}", partial(_check_root, roots, name))
    for name in layout.entries("partial"):
        path = f"{layout.root}/partial/{name}"
        check.attempt(f"unfinished build {name[:12]}", path, partial(_check_partial, layout, name))
    for key in layout.names("cuts"):
        if read_cut_table(layout, key) is None:
            check.note(f"cut table {key.short}", layout.cuts(key), "differs from what was published")


def _check_root(roots: Roots, name: str) -> None:
    found = roots.generations(name)
    if not found:
        raise ValueError("has no generation")
    for root in found:
        if not os.path.exists(roots.layout.derivation(root.digest)):
            raise ValueError(f"generation {root.generation} names derivation {root.digest.short}, which is gone")


def _check_partial(layout: Layout, name: str) -> None:
    lease.partial_actions(layout, Digest.parse(name))
