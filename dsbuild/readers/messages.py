"""The messages of an Arrow IPC stream or file, found without reading their bodies.

Framing and the few flatbuffer fields that we need are read here (Arrow columnar format, "Encapsulated message
format"), because a cut needs the byte range of each batch and pyarrow does not tell it. Safe on hostile files: every
offset is checked against the bytes there are; what the batches hold is pyarrow's to check when they are read.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dsbuild.readers.decompress import changed

_MAGIC = b"ARROW1"
_CONTINUES = b"\xff\xff\xff\xff"
_KINDS = {1: "schema", 2: "dictionary", 3: "batch"}


class BadMessage(ValueError):
    """What is wrong with the framing, with its byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """``kind``: "schema", "dictionary" or "batch"; bytes ``start`` up to ``stop`` of the file; ``rows`` of a batch."""

    kind: str
    start: int
    stop: int
    rows: int


def is_file(file: BinaryIO) -> bool:
    """Whether ``file`` is in the IPC file format (its magic says so), not a stream."""
    file.seek(0)
    return file.read(len(_MAGIC)) == _MAGIC


def messages(file: BinaryIO) -> Iterator[Message]:
    """The messages in order: a schema, then dictionaries and batches. Raises ``BadMessage``."""
    size = file.seek(0, io.SEEK_END)
    at = _begin(file, size)
    first = True
    while at < size:
        file.seek(at)
        prefix = file.read(8)
        if prefix[:4] == _CONTINUES:
            length, lead = _int32(prefix[4:], at), 8
        else:  # before Arrow 0.15
            length, lead = _int32(prefix[:4], at), 4
        if length == 0:
            break
        file.seek(at + lead)
        if length < 0 or at + lead + length > size:
            raise BadMessage(f"byte {at}: no Arrow message, or one that is cut off")
        kind, rows, body = _header(file.read(length), at)
        stop = at + lead + length + body
        if stop > size:
            raise BadMessage(f"byte {at}: an Arrow message that is cut off")
        if (kind == "schema") != first:
            raise BadMessage(f"byte {at}: {'no schema first' if first else 'a second schema'}")
        yield Message(kind=kind, start=at, stop=stop, rows=rows)
        at, first = stop, False
    if first:
        raise BadMessage("no Arrow data")


def _begin(file: BinaryIO, size: int) -> int:
    """Where the stream begins: 0, or after the magic of the file format and the zeros that align what follows."""
    if not is_file(file):
        return 0
    file.seek(8)
    head = file.read(56)
    file.seek(max(size - len(_MAGIC), 8))
    if file.read() != _MAGIC:
        raise BadMessage(f"byte {size}: the end of the file is missing (no ARROW1 there)")
    return 8 + (len(head) - len(head.lstrip(b"\0"))) // 8 * 8


def _int32(data: bytes, at: int) -> int:
    if len(data) < 4:
        raise BadMessage(f"byte {at}: an Arrow message that is cut off")
    return int.from_bytes(data[:4], "little", signed=True)


def _header(data: bytes, at: int) -> tuple[str, int, int]:
    """(kind, rows, length of the body) of a message's flatbuffer."""
    try:
        message = _u32(data, 0)
        kind_at, header_at, body_at = (_field(data, message, i) for i in (1, 2, 3))
        kind = _KINDS.get(data[kind_at] if kind_at else 0)
        if kind is None or not header_at:
            raise BadMessage(f"byte {at}: an Arrow message that is no schema, dictionary or batch")
        rows_at = _field(data, header_at + _u32(data, header_at), 0) if kind == "batch" else 0
        rows, body = _int64(data, rows_at), _int64(data, body_at)
    except (struct.error, IndexError):
        raise BadMessage(f"byte {at}: not an Arrow message") from None
    if rows < 0 or body < 0:
        raise BadMessage(f"byte {at}: an Arrow message with a negative length")
    return kind, rows, body


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _int64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<q", data, at)[0]) if at else 0


def _field(data: bytes, table: int, index: int) -> int:
    """Where field ``index`` of a flatbuffer table stands, 0 if it is absent."""
    entries = table - int(struct.unpack_from("<i", data, table)[0])
    if entries < 0:
        raise IndexError(entries)
    slot = 4 + 2 * index
    if slot >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    offset = int(struct.unpack_from("<H", data, entries + slot)[0])
    return table + offset if offset else 0


class Ranges(io.RawIOBase):
    """Byte ranges of a file, read as one stream. Raises ``BuildError`` (``source-changed``) where it is shorter."""

    def __init__(self, path: Path, file: BinaryIO, ranges: Sequence[tuple[int, int]]) -> None:
        self._path, self._file = path, file
        self._left = [r for r in ranges if r[0] < r[1]]

    def readable(self) -> bool:
        """True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes (all, if negative), fewer only at the end."""
        found = []
        while self._left and size:
            start, stop = self._left.pop(0)
            count = stop - start if size < 0 else min(size, stop - start)
            self._file.seek(start)
            data = self._file.read(count)
            if len(data) < count:
                raise changed(self._path, f"it ends before byte {start + count}")
            found.append(data)
            if start + count < stop:
                self._left.insert(0, (start + count, stop))
            size = size if size < 0 else size - count
        return b"".join(found)
