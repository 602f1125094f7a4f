"""Disk: every call that changes the file system, in one place, so that a test can stop the process before any of them.

``before`` is called with the verb and the path ahead of each call; the default does nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from dsbuild.errors import DsbuildError, NotFoundError, StorageError

Buffer = bytes | bytearray | memoryview

_WRITE_MOST = 1 << 30
_SILENT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


def _nothing(verb: str, path: str) -> None:
    """Lets every call pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The verbs of the store on a local file system. All raise ``OSError``; see ``refusals``."""

    before: Callable[[str, str], None] = _nothing

    def create(self, path: str, pieces: Iterable[Buffer], *, sync: bool = False) -> None:
        """Write a new read-only file of ``pieces``; with ``sync`` its bytes are durable on return."""
        self.before("create", path)
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444)
        try:
            for piece in pieces:
                self._write(fd, path, piece)
            if sync:
                self.before("fsync", path)
                os.fsync(fd)
        finally:
            os.close(fd)

    def _write(self, fd: int, path: str, piece: Buffer) -> None:
        rest = memoryview(piece).cast("B") if len(piece) else memoryview(b"")
        while rest:
            self.before("write", path)
            rest = rest[os.write(fd, rest[:_WRITE_MOST]) :]

    def mkdir(self, path: str) -> bool:
        """Make a directory; False if there was one."""
        self.before("mkdir", path)
        try:
            os.mkdir(path)
        except FileExistsError:
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Rename at once; a file replaces a file, a directory only an empty one."""
        self.before("rename", new)
        os.rename(old, new)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name; ``FileExistsError`` if that is taken."""
        self.before("link", new)
        os.link(old, new)

    def unlink(self, path: str) -> None:
        """Remove a file; absent is fine."""
        self.before("unlink", path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def rmdir(self, path: str) -> bool:
        """Remove an empty directory; False if it is absent or not empty."""
        self.before("rmdir", path)
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    def touch(self, path: str) -> None:
        """Set the times of a file or directory to now."""
        self.before("touch", path)
        os.utime(path)

    def fsync(self, path: str) -> None:
        """Make a file's bytes or a directory's entries durable."""
        self.before("fsync", path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _SILENT_SYNC:  # some file systems can't sync directories
                raise
        finally:
            os.close(fd)

    def syncfs(self, tree: str) -> None:
        """Make all that was written to the file system of ``tree`` durable; else fsync each file under it."""
        self.before("syncfs", tree)
        call = _syncfs()
        if call is None:
            self._fsync_tree(tree)
            return
        fd = os.open(tree, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if call(fd) != 0:
                code = ctypes.get_errno()
                if code in _SILENT_SYNC:
                    self._fsync_tree(tree)
                else:
                    raise OSError(code, os.strerror(code), tree)
        finally:
            os.close(fd)

    def _fsync_tree(self, tree: str) -> None:
        for directory, _, names in os.walk(tree, topdown=False):
            for name in names:
                self.fsync(f"{directory}/{name}")
            self.fsync(directory)

    def remove_tree(self, path: str) -> None:
        """Remove a file or a directory with all in it; absent is fine, also while others remove it too."""
        try:
            entries = list(os.scandir(path))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            self.unlink(path)
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                self.unlink(entry.path)
        self.rmdir(path)


@cache
def _syncfs() -> Any:
    """The C function, or None where there is none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    call.argtypes, call.restype = [ctypes.c_int], ctypes.c_int
    return call


def refusal(error: OSError, path: str, doing: str) -> DsbuildError:
    """The error for people that stands for ``error``."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    where = str(error.filename or path)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"{where}: no space left while {doing}",
            kind="disk-full",
            hint="'dsbuild gc' frees what no root needs; what was published stays",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and doing != "reading":
        return StorageError(
            f"{where}: can't be written while {doing} ({reason})",
            kind="read-only",
            hint="use another store (--store, DSBUILD_STORE) or give this user the right to write",
        )
    if error.errno == errno.ENOENT:
        return NotFoundError(f"{where}: vanished while {doing}", kind="not-found", hint="is the store still there?")
    return StorageError(f"{where}: the operating system refused while {doing} ({reason})", kind="io-error")


@contextmanager
def refusals(path: str, doing: str) -> Iterator[None]:
    """Turn ``OSError`` inside into ``StorageError`` (kinds disk-full, read-only, io-error) or ``NotFoundError``."""
    try:
        yield
    except OSError as error:
        raise refusal(error, path, doing) from error
