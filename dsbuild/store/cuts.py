"""Cuts: how files were cut in parts, kept by the content of the file. Can be made again, so damage is only a miss."""

from __future__ import annotations

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import NonDeterministicError
from dsbuild.store.disk import Disk
from dsbuild.store.layout import Layout
from dsbuild.store.publish import create, read


def read_cut_table(layout: Layout, key: Digest) -> bytes | None:
    """The cut table of ``key``; None if it is absent or damaged."""
    data = read(layout.cuts(key))
    return None if data is None or data[:32] != _check(key, data[32:]) else data[32:]


def put_cut_table(layout: Layout, disk: Disk, key: Digest, data: bytes) -> None:
    """Publish a cut table. Raises ``NonDeterministicError`` if another one is there."""

    def keep(there: bytes) -> bool:
        if there[:32] == _check(key, there[32:]):
            raise NonDeterministicError(f"cut table {key.short}: differs from before", kind="non-deterministic")
        return False

    create(layout, disk, layout.cuts(key), _check(key, data) + data, keep)


def _check(key: Digest, data: bytes) -> bytes:
    return of_bytes(Domain.FILE, key.raw + data).raw
