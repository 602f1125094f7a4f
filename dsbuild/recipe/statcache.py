"""Stat cache: digests of files that nobody wrote to since they were hashed. It only accelerates.

Safe to lose, to damage and to share: anything unexpected in the file reads as an empty cache, and an entry holds only
for the very same size, mtime, ctime, inode and device. A file whose mtime is within two seconds of its hashing is not
remembered, because it could be written again within one tick of the clock.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from blake3 import blake3

from dsbuild.digest import Digest

FILE = "files-1"
FRESH_NS = 2_000_000_000

_HEAD = "dsbuild stat cache 1"
_MOST_UNUSED = 100_000


class StatCache:
    """The cache file in ``directory``, or (None) one that lasts as long as the process. Loaded on the first look-up."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE
        self._entries: dict[str, str] | None = None
        self._used: dict[str, str] = {}
        self._new = False

    def lookup(self, path: str, status: os.stat_result) -> Digest | None:
        """The digest of the file at the absolute ``path``, if ``status`` is what it was."""
        entries = self._load() if self._entries is None else self._entries
        entry = entries.get(path)
        if entry is None or not entry.startswith(_mark(status)):
            return None
        try:
            found = Digest(bytes.fromhex(entry[-64:]))
        except ValueError:
            return None
        self._used[path] = entry
        return found

    def remember(self, path: str, status: os.stat_result, digest: Digest, started_ns: int) -> None:
        """Keep what hashing gave that started at ``started_ns`` (``time.time_ns``), if it may be trusted later."""
        entries = self._load() if self._entries is None else self._entries
        if status.st_mtime_ns > started_ns - FRESH_NS or "\n" in path:
            return
        entries[path] = self._used[path] = _mark(status) + digest.hex
        self._new = True

    def save(self) -> bool:
        """Write the file at once (temporary file, rename) if anything was learnt; False where that is not possible."""
        if self._path is None or not self._new or self._entries is None:
            return self._path is not None
        unused = [path for path in self._entries if path not in self._used][:_MOST_UNUSED]
        kept = self._used | {path: self._entries[path] for path in unused}
        body = "\n".join([_HEAD, *(line for pair in kept.items() for line in pair)])
        data = body.encode("utf-8", "surrogateescape")
        temporary = self._path.with_name(f".{FILE}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data + b"\n" + blake3(data).hexdigest().encode())
            temporary.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        self._new = False
        return True

    def _load(self) -> dict[str, str]:
        self._entries = {} if self._path is None else _read(self._path)
        return self._entries


def _mark(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino} {status.st_dev} "


def _read(path: Path) -> dict[str, str]:
    """The entries of the file at ``path``; none if it is absent or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    body, _, seal = data.rpartition(b"\n")
    if blake3(body).hexdigest().encode() != seal:
        return {}
    head, *lines = body.decode("utf-8", "surrogateescape").split("\n")
    if head != _HEAD or len(lines) % 2:
        return {}
    return dict(zip(lines[::2], lines[1::2], strict=True))
