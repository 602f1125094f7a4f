"""Zstandard frames of a file, decoded block by block.

Safe because we walk the frames ourselves (RFC 8878, section 3.1) and give the library one block at a time: a block
decodes to at most 128 KiB, so no input can fill the memory; and we know where a frame must end, which the library's
own stream reader does not tell (it takes data that is cut off for a shorter file).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_FRAME = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZES = (0, 2, 4, 8)


class Damage(Exception):
    """Compressed data that does not decode: ``what`` is wrong near byte ``at`` of the compressed file."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(at, what)
        self.at, self.what = at, what


def frames(file: BinaryIO) -> Iterator[bytes]:
    """The decoded bytes of all frames, in pieces of at most about 128 KiB; skippable frames are left out.

    Raises ``Damage`` for anything that is not whole frames, an empty file included.
    """
    magic = file.read(4)
    if not magic:
        raise Damage(0, "not zstd: the file is empty")
    while magic:
        at = file.tell() - len(magic)
        if magic == _FRAME:
            yield from _frame(file, at)
        elif len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == _SKIPPABLE:
            _skip(file, int.from_bytes(_exactly(file, 4), "little"))
        elif at and _FRAME.startswith(magic):
            raise Damage(at + len(magic), "the zstd data is cut off here")
        else:
            raise Damage(at, "not zstd" if at == 0 else "something that is not zstd follows the zstd data")
        magic = file.read(4)


def _frame(file: BinaryIO, at: int) -> Iterator[bytes]:
    import zstandard

    decoder = zstandard.ZstdDecompressor().decompressobj()
    descriptor = _exactly(file, 1)
    kind = descriptor[0]
    single = bool(kind & 0x20)
    content = _CONTENT_SIZES[kind >> 6] or (1 if single else 0)
    head = _FRAME + descriptor + _exactly(file, (0 if single else 1) + _ID_SIZES[kind & 3] + content)
    try:
        decoder.decompress(head)
        last = False
        while not last:
            at = file.tell()
            begin = _exactly(file, 3)
            number = int.from_bytes(begin, "little")
            last, form, size = bool(number & 1), number >> 1 & 3, number >> 3
            if form == 3 or size > 128 << 10:
                raise Damage(at, "the zstd data is damaged here (no such block)")
            if piece := decoder.decompress(begin + _exactly(file, 1 if form == 1 else size)):
                yield piece
        if kind & 4 and (piece := decoder.decompress(_exactly(file, 4))):
            yield piece
    except zstandard.ZstdError as error:
        raise Damage(at, f"the zstd data near here is damaged ({str(error).rpartition(': ')[2].lower()})") from None
    if not decoder.eof:
        raise Damage(file.tell(), "the zstd frame does not end where it should")


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise Damage(file.tell(), "the zstd data is cut off here")
    return data


def _skip(file: BinaryIO, size: int) -> None:
    while size:
        size -= len(_exactly(file, min(size, 1 << 20)))
