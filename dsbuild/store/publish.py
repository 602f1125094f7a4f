"""Publish: how a small file becomes visible at once, durably, and for ever.

Write into ``tmp/``, fsync, link or rename, fsync the directory. A crash leaves at most a file in ``tmp/``; since this
happens under the builders' lock, a collector that holds its own lock may remove every file that it finds there.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from dsbuild.store.disk import Disk, refusals
from dsbuild.store.layout import Layout
from dsbuild.store.locks import builders


def read(path: str) -> bytes | None:
    """The bytes of a file, None if it is absent. Raises ``StorageError`` kind ``io-error``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        with refusals(path, "reading"):
            raise error
    try:
        pieces = [os.read(fd, 1 << 16)]
        while pieces[-1]:
            pieces.append(os.read(fd, 1 << 24))
        return b"".join(pieces)
    except OSError as error:
        with refusals(path, "reading"):
            raise error
    finally:
        os.close(fd)


def create(layout: Layout, disk: Disk, path: str, data: bytes, keep: Callable[[bytes], bool]) -> bytes:
    """Publish ``data`` as ``path`` unless it exists; the bytes that stand there in the end.

    Of an existing file with other bytes, ``keep`` says whether it stays (or it raises); a damaged one is replaced.
    """
    with refusals(path, "publishing"), builders(layout):
        there = read(path)
        if there is not None and (there == data or keep(there)):
            disk.fsync(os.path.dirname(path))  # its publisher may have died before its own fsync
            return there
        temporary = _write(layout, disk, data)
        try:
            _make_parent(disk, path)
            if there is None:
                try:
                    disk.link(temporary, path)
                except FileExistsError:
                    there = read(path)
                    if there is None or not (there == data or keep(there)):
                        disk.rename(temporary, path)
                        there = None
            else:
                disk.rename(temporary, path)
                there = None
            disk.fsync(os.path.dirname(path))
        finally:
            disk.unlink(temporary)
    return data if there is None else there


def replace(layout: Layout, disk: Disk, path: str, data: bytes) -> None:
    """Publish ``data`` as ``path``, in place of what is there."""
    with refusals(path, "publishing"), builders(layout):
        temporary = _write(layout, disk, data)
        try:
            _make_parent(disk, path)
            disk.rename(temporary, path)
            disk.fsync(os.path.dirname(path))
        finally:
            disk.unlink(temporary)


def _write(layout: Layout, disk: Disk, data: bytes) -> str:
    temporary = layout.fresh("tmp")
    try:
        disk.create(temporary, [data], sync=True)
    except OSError:
        disk.unlink(temporary)
        raise
    return temporary


def _make_parent(disk: Disk, path: str) -> None:
    parent = os.path.dirname(path)
    if not os.path.isdir(parent) and disk.mkdir(parent):
        disk.fsync(os.path.dirname(parent))
