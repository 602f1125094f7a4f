"""Listing: the ``files`` of an object, which names every other file of it with size and BLAKE3. Written last.

Its own digest names the encoding, so whoever trusts the path trusts every byte below it. ``blocks`` beside it holds
the BLAKE3 of each 64 KiB of the files that are larger than that, in the order of ``files``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dsbuild import canon
from dsbuild.digest import Digest, Domain, hasher, of_bytes

BLOCK = 64 << 10

_PATH = re.compile(r"data\.zarr(/[A-Za-z0-9_.@~-]{1,160}){1,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of an object: ``size`` in bytes, ``digest`` of all of it, and number of its ``first`` row in ``blocks``.

    ``first`` is -1 for a file of at most one block, whose digest serves as the block's.
    """

    size: int
    digest: Digest
    first: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.size // BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of an object by path, of the object with content digest ``content``."""

    content: Digest
    entries: dict[str, Entry]
    blocks: Digest | None
    data: bytes

    @property
    def encoding(self) -> Digest:
        """The name of the object's directory below its content."""
        return encoding_of(self.data)

    @property
    def rows(self) -> int:
        """Number of digests in ``blocks``."""
        return sum(e.blocks for e in self.entries.values() if e.first >= 0)

    @property
    def size(self) -> int:
        """Bytes of all files of the object."""
        return sum(e.size for e in self.entries.values()) + len(self.data) + 32 * self.rows


def encoding_of(data: bytes) -> Digest:
    """The encoding digest of the bytes of a ``files``."""
    return of_bytes(Domain.ENCODING, data)


def render(content: Digest, files: dict[str, tuple[int, Digest]], blocks: bytes) -> bytes:
    """The bytes of ``files``: path -> (size, BLAKE3), and the bytes of ``blocks`` (empty = there is no such file)."""
    listed = [[path, size, digest.hex] for path, (size, digest) in sorted(files.items())]
    found = of_bytes(Domain.FILE, blocks).hex if blocks else None
    return canon.encode({"block": BLOCK, "blocks": found, "content": content.hex, "dsbuild": 1, "files": listed})


def parse(data: bytes) -> Listing:
    """The listing of ``files``. Raises ``ValueError`` for bytes that ``render`` can't have made."""
    value = canon.decode(data)
    if not isinstance(value, dict) or value.get("dsbuild") != 1 or value.get("block") != BLOCK:
        raise ValueError("not a listing of format 1")
    extra = set(value) - {"block", "blocks", "content", "dsbuild", "files"}
    if extra or not isinstance(value.get("files"), list):
        raise ValueError(f"not a listing of format 1: {sorted(extra)}")
    entries: dict[str, Entry] = {}
    first, last = 0, ""
    for item in value["files"]:
        path, size, digest = _row(item)
        if path <= last:
            raise ValueError(f"{path!r} is listed out of order")
        entry = Entry(size=size, digest=digest, first=first if size > BLOCK else -1)
        first, last = first + (entry.blocks if entry.first >= 0 else 0), path
        entries[path] = entry
    blocks = _digest(value["blocks"]) if "blocks" in value else None
    if (blocks is None) != (first == 0):
        raise ValueError("'blocks' is there without large files, or the other way round")
    return Listing(content=_digest(value.get("content")), entries=entries, blocks=blocks, data=data)


def _row(item: Any) -> tuple[str, int, Digest]:
    if not isinstance(item, list) or len(item) != 3:
        raise ValueError(f"{item!r} is not [path, size, digest]")
    path, size, digest = item
    if not isinstance(path, str) or not _PATH.fullmatch(path) or ".." in path.split("/") or "." in path.split("/"):
        raise ValueError(f"{path!r} can't be a file of an object")
    if type(size) is not int or size < 0:
        raise ValueError(f"{path!r} has {size!r} bytes")
    return path, size, _digest(digest)


def _digest(value: Any) -> Digest:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no digest")
    return Digest.parse(value)


def digest_of(pieces: list[memoryview]) -> Digest:
    """The BLAKE3 of ``pieces`` one after the other."""
    state = hasher(Domain.FILE)
    for piece in pieces:
        state.update(piece)
    return Digest(state.digest())


def of_file(path: str, piece: int = 4 << 20) -> Digest:
    """The BLAKE3 of a file, read in pieces of ``piece`` bytes. Raises ``OSError``."""
    state, buffer = hasher(Domain.FILE), bytearray(piece)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            state.update(memoryview(buffer)[:count])
    return Digest(state.digest())
