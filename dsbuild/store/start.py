"""Start: a new store. Its ``format`` file is made last, so what has one is whole; a second try completes the first."""

from __future__ import annotations

import os

from dsbuild.errors import StorageError
from dsbuild.store.disk import Disk, refusals
from dsbuild.store.layout import DIRECTORIES, FORMAT, LOCKS, Layout

_KNOWN = {*DIRECTORIES, "README", "README.md", "README.txt", "lost+found"}


def create(layout: Layout, disk: Disk) -> None:
    """Make a store. Raises ``StorageError`` where other things lie in the directory or it can't be written."""
    with refusals(layout.root, "making a store"):
        _make_directories(disk, layout.root)
        strangers = sorted(n for n in os.listdir(layout.root) if n not in _KNOWN and not n.startswith("."))
        if strangers and "format" not in strangers:
            raise StorageError(
                f"{layout.root}: holds other things ({strangers[0]!r}) and is no store",
                kind="store-format",
                hint="name an empty or absent directory",
            )
        for name in DIRECTORIES:
            disk.mkdir(f"{layout.root}/{name}")
        for name in LOCKS:  # made now, so that a full disk can be collected
            _touch(disk, f"{layout.root}/{name}")
        temporary = layout.fresh("tmp")
        disk.create(temporary, [f"dsbuild store {FORMAT}\n".encode()])
        disk.syncfs(layout.root)
        disk.rename(temporary, layout.format)
        disk.fsync(layout.root)
        disk.fsync(os.path.dirname(layout.root))


def _touch(disk: Disk, path: str) -> None:
    if not os.path.exists(path):
        try:
            disk.create(path, [])
        except FileExistsError:
            return


def _make_directories(disk: Disk, path: str) -> None:
    if not os.path.isdir(path):
        _make_directories(disk, os.path.dirname(path))
        if not disk.mkdir(path) and not os.path.isdir(path):
            raise StorageError(f"{path}: is a file, not a directory", kind="io-error")
