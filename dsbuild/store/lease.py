"""Lease: a living user's claim on derivations, a file that its owner keeps locked. The lock dies with the owner.

A partial build's claim outlives its owner instead: for 14 days after its last change, so that a killed build resumes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError
from dsbuild.store.disk import Disk, refusals
from dsbuild.store.layout import Layout
from dsbuild.store.locks import builders, take
from dsbuild.store.publish import read, replace
from dsbuild.store.sealed import member, seal, unseal

PARTIAL_DAYS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A claim on ``derivations``. ``building``: it also protects all that was published since it began.

    ``path`` is None in a store that can't be written: then only roots protect.
    """

    derivations: tuple[Digest, ...]
    building: bool
    path: str | None


@contextmanager
def hold(layout: Layout, disk: Disk, derivations: Sequence[Digest], *, building: bool) -> Iterator[Lease]:
    """A lease for the duration of the block, durable when it begins. See ``Store.lease``."""
    path = layout.fresh("leases")
    temporary = layout.fresh("tmp")
    wanted = sorted({digest.hex for digest in derivations})
    with refusals(path, "taking a lease"), builders(layout):
        try:
            disk.create(temporary, [seal({"building": building, "derivations": wanted, "dsbuild": 1})], sync=True)
            lock = take(temporary, exclusive=True)
        except OSError:
            disk.unlink(temporary)
            raise
        try:
            disk.rename(temporary, path)
            disk.fsync(os.path.dirname(path))
        except BaseException:
            os.close(lock)
            raise
    owner = os.getpid()
    try:
        yield Lease(derivations=tuple(derivations), building=building, path=path)
    finally:
        try:
            if os.getpid() == owner:  # a forked child that leaves the block must not end its parent's lease
                with suppress(OSError):
                    disk.unlink(path)
        finally:
            os.close(lock)


def parse(path: str) -> Lease | None:
    """The lease in ``path``, None if it is gone. Raises ``CorruptError``."""
    data = read(path)
    if data is None:
        return None
    value = unseal(data, path)
    derivations = tuple(Digest.parse(text) for text in member(value, "derivations", list, path))
    return Lease(derivations=derivations, building=member(value, "building", bool, path), path=path)


def begin_partial(layout: Layout, disk: Disk, derivation: Digest, actions: Sequence[Digest]) -> None:
    """Publish the action keys of a build under way. See ``Store.partial``."""
    data = b"".join(action.raw for action in actions)
    replace(layout, disk, layout.partial(derivation), _check(derivation, data) + data)


def end_partial(layout: Layout, disk: Disk, derivation: Digest) -> None:
    """Remove what ``begin_partial`` published; absent is fine."""
    path = layout.partial(derivation)
    with refusals(path, "ending a build"):
        disk.unlink(path)


def partial_actions(layout: Layout, derivation: Digest) -> list[Digest] | None:
    """The action keys of a partial build, None if there is none. Raises ``CorruptError``."""
    path = layout.partial(derivation)
    found = read(path)
    if found is None:
        return None
    check, data = found[:32], found[32:]
    if len(data) % 32 or check != _check(derivation, data):
        raise CorruptError(f"{path}: its bytes differ from what was published", kind="corrupt")
    return [Digest(data[i : i + 32]) for i in range(0, len(data), 32)]


def _check(derivation: Digest, data: bytes) -> bytes:
    return of_bytes(Domain.FILE, derivation.raw + data).raw
