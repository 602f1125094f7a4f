"""The footer of a Parquet file: which bytes of the file are whose.

Read here (Thrift compact protocol, ``parquet.thrift`` of the format's repository) because pyarrow ends the whole
process when it is asked for some damaged column chunks. Safe on hostile files: sizes are checked against the bytes that
are left, depth is bounded, and ranges lie inside the file.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, BinaryIO

_MAGIC = b"PAR1"
_DEPTH = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13


class BadFooter(ValueError):
    """What is wrong with the footer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The stored values of a column in a row group: bytes ``start`` up to ``start + size``, packed with ``codec``."""

    path: tuple[str, ...]
    codec: int
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row group."""

    rows: int
    chunks: tuple[Chunk, ...]


def row_groups(file: BinaryIO) -> tuple[Group, ...]:
    """The row groups that the footer of ``file`` tells of. Raises ``BadFooter``."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - 12:
        raise BadFooter("the end of the file is missing (no PAR1 there)")
    file.seek(size - 8 - length)
    try:
        footer = _Compact(file.read(length)).struct(_WANTED)
        return tuple(_group(g, size - 8 - length) for g in footer.get(4, []))
    except (AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError):
        raise BadFooter("a damaged footer") from None


_META: dict[int, Any] = {3: None, 4: None, 7: None, 9: None, 11: None}
_WANTED: dict[int, Any] = {4: {1: {1: None, 3: _META}, 3: None}}
"""FileMetaData.row_groups; of each columns and num_rows; of each file_path and meta_data; of that the five needed."""


def _group(value: dict[int, Any], end: int) -> Group:
    return Group(rows=_number(value[3]), chunks=tuple(_chunk(chunk, end) for chunk in value[1]))


def _chunk(value: dict[int, Any], end: int) -> Chunk:
    meta = value[3]
    start, size = _number(meta[9]), _number(meta[7])
    if 0 < meta.get(11, 0) < start:  # the dictionary stands before the data
        start = meta[11]
    if 1 in value or start + size > end:
        raise BadFooter("a column chunk outside the file")
    path = tuple(name.decode("utf-8") for name in meta[3])
    return Chunk(path=path, codec=_number(meta[4]), start=start, size=size)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise BadFooter(f"{value!r} where a size or offset should be")
    return value


class _Compact:
    """A reader of Thrift's compact protocol: structs are dicts by field number, with only the fields asked for."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, wanted: dict[int, Any] | None, depth: int = _DEPTH) -> dict[int, Any]:
        """The next struct; ``wanted``: field number -> fields wanted inside it; None = the struct is passed over."""
        if depth == 0:
            raise BadFooter("a footer that is nested too deep")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            inner = wanted.get(number) if wanted else None
            kind = head & 15
            value = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, inner, depth - 1)
            if wanted and number in wanted:
                found[number] = value
        return found

    def _value(self, kind: int, wanted: Any, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            return self._items(head & 15, self._count(head >> 4 if head >> 4 < 15 else self._varint()), wanted, depth)
        if kind == _MAP:
            count = self._count(self._varint())
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4, None, depth), self._value(kinds & 15, None, depth)) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct(wanted, depth)
        if kind in (_DOUBLE, _UUID):
            return self._take(8 if kind == _DOUBLE else 16)
        raise BadFooter(f"a footer with a value of kind {kind}, which there is not")

    def _items(self, kind: int, count: int, wanted: Any, depth: int) -> list[Any]:
        if depth == 0:
            raise BadFooter("a footer that is nested too deep")
        return [self._value(kind, wanted, depth - 1) for _ in range(count)]

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        self._at += self._count(size)
        return self._data[self._at - size : self._at]

    def _count(self, size: int) -> int:
        """``size``, which is of things of at least a byte each."""
        if size > len(self._data) - self._at:
            raise BadFooter("a footer that tells of more than it holds")
        return size

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise BadFooter("a footer with a number of more than 64 bits")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
