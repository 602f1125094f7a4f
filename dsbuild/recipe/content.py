"""Content: the plain BLAKE3 of a file, as ``b3sum`` prints it.

Files are read, not mapped: a mapped file that someone truncates meanwhile would kill the process. A file that changes
while it is read is an error, never a digest of a mixture.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from blake3 import blake3

from dsbuild.digest import Digest
from dsbuild.errors import BuildError, DsbuildError, RecipeError, Where

_SMALL = 1 << 20
_BLOCK = 1 << 23


def hash_file(path: Path | str) -> Digest:
    """The BLAKE3 of the file's bytes.

    Raises ``RecipeError`` (``no-such-file``, ``not-a-file``, ``unreadable``) and ``BuildError`` (``source-changed``).
    """
    return hash_and_stat(str(path), str(path))[0]


def hash_and_stat(path: str, name: str) -> tuple[Digest, os.stat_result]:
    """As ``hash_file``, with the ``stat`` that held before and after; messages say ``name``."""
    return read_and_stat(path, name, None)


def read_and_stat(path: str, name: str, content: bytearray | None) -> tuple[Digest, os.stat_result]:
    """As ``hash_and_stat``; the bytes are appended to ``content`` unless it is None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise _refused(path, name, error) from None
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            what = "a directory" if stat.S_ISDIR(before.st_mode) else "not a regular file"
            raise RecipeError(f"{name}: {what}", kind="not-a-file", where=Where(path=path))
        digest, size = _digest(descriptor, before.st_size, content)
        after = os.fstat(descriptor)
    except OSError as error:
        raise _refused(path, name, error) from None
    finally:
        os.close(descriptor)
    if _marks(before) != _marks(after) or size != before.st_size:
        raise BuildError(
            f"{name}: changed while it was being read ({before.st_size} bytes before, {after.st_size} after)",
            kind="source-changed",
            where=Where(path=path),
            hint="try again when nothing writes to it",
        )
    return digest, after


def _marks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digest(descriptor: int, expected: int, content: bytearray | None) -> tuple[Digest, int]:
    """(digest, bytes read); stops soon after ``expected`` bytes, so that a growing file ends too."""
    if expected < _SMALL:
        data = os.read(descriptor, expected + 1)
        while len(data) <= expected and (more := os.read(descriptor, expected + 1 - len(data))):
            data += more
        if content is not None:
            content += data
        return Digest(blake3(data).digest()), len(data)
    state, size = blake3(max_threads=blake3.AUTO), 0
    block = memoryview(bytearray(_BLOCK))
    while size <= expected:
        count = os.readv(descriptor, [block])
        if not count:
            break
        state.update(block[:count])
        if content is not None:
            content += block[:count]
        size += count
    return Digest(state.digest()), size


def _refused(path: str, name: str, error: OSError | ValueError) -> DsbuildError:
    where = Where(path=path)
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ValueError)):
        return RecipeError(f"{name}: no such file", kind="no-such-file", where=where)
    hint = "check its permissions" if isinstance(error, PermissionError) else None
    return RecipeError(f"{name}: {error.strerror or error}", kind="unreadable", where=where, hint=hint)
