"""Decoded bytes of a source file, plain or compressed, as a stream of pieces in bounded memory.

Safe on hostile input: whatever the compression ratio, no step makes more than a few MiB at once; compressed data that
is cut off, damaged or followed by anything else is an error with its byte, never a silent end.
"""

from __future__ import annotations

import io
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dsbuild.errors import BuildError, DsbuildError, NotFoundError, RecipeError, StorageError
from dsbuild.readers.zst import Damage, frames

PIECE = 4 << 20
"""Bytes of a piece, at most about."""

_INPUT = 1 << 18


def with_compressed(*suffixes: str) -> tuple[str, ...]:
    """``suffixes`` and each of them followed by ``.gz`` and ``.zst``."""
    return tuple(s + packed for s in suffixes for packed in ("", ".gz", ".zst"))


def is_compressed(path: Path) -> bool:
    """Whether the name of ``path`` says that its bytes are gzip or zstd."""
    return path.suffix.lower() in (".gz", ".zst")


def pieces(path: Path, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """The decoded bytes ``start`` up to ``stop`` (None = the end) of ``path``, in non-empty pieces of about 4 MiB.

    A plain file is read from ``start`` on; a compressed one is decoded from its beginning. Raises ``BuildError`` (kind
    ``bad-record``) for damaged compressed data, (kind ``source-changed``) for a file that ends before ``stop``, and
    the errors of ``opened``.
    """
    least = max(start, stop or 0)
    position = 0 if is_compressed(path) else start
    with opened(path) as file:
        if position and file.seek(0, io.SEEK_END) < least:
            raise changed(path, f"it ends before byte {least}")
        for piece in _decoded(path, file, start):
            skip = max(start - position, 0)
            keep = len(piece) if stop is None else min(stop - position, len(piece))
            position += len(piece)
            if skip < keep:
                yield piece if skip == 0 and keep == len(piece) else piece[skip:keep]
            if stop is not None and position >= stop:
                return
    if position < least:
        raise changed(path, f"it ends before byte {least}")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The regular file ``path``, open for reading; errors of the operating system inside become errors for people.

    Raises ``NotFoundError`` (``no-such-file``), ``RecipeError`` (``not-a-file``, ``unreadable``), ``StorageError``
    (``io-error``).
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # before opening: opening a pipe would wait for a writer
            raise RecipeError(f"{path}: not a file but a directory or device", kind="not-a-file")
        with path.open("rb") as file:
            yield file
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"{path}: no such file", kind="no-such-file") from None
    except PermissionError:
        raise RecipeError(f"{path}: no permission to read it", kind="unreadable", hint="see `ls -l`") from None
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror or error}", kind="io-error") from None


def changed(path: Path, what: str) -> DsbuildError:
    """The error for a file that is not what its cuts were made of."""
    hint = "build again; if the new content is meant, accept it with `dsbuild lock --update`"
    return BuildError(f"{path}: changed while it was read: {what}", kind="source-changed", hint=hint)


def _decoded(path: Path, file: BinaryIO, start: int) -> Iterator[bytes]:
    """All decoded bytes, or those from ``start`` on if the file is plain."""
    packed = path.suffix.lower()
    try:
        if packed == ".gz":
            yield from _gathered(_members(file))
        elif packed == ".zst":
            yield from _gathered(frames(file))
        else:
            file.seek(start)
            while piece := file.read(PIECE):
                yield piece
    except Damage as damage:
        form = "gzip" if packed == ".gz" else "zstd"
        message = f"{path}: byte {damage.at} of the compressed file: {damage.what}"
        hint = f"test the file with `{form} -t` and fetch it again"
        raise BuildError(message, kind="bad-record", hint=hint) from None


def _gathered(small: Iterator[bytes]) -> Iterator[bytes]:
    """``small`` pieces joined to pieces of about ``PIECE``."""
    held: list[bytes] = []
    size = 0
    for piece in small:
        held.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


def _members(file: BinaryIO) -> Iterator[bytes]:
    """The decoded bytes of gzip members one after the other (RFC 1952); zeros may follow the last, as tape had them."""
    data, taken = file.read(_INPUT), 0
    if not data:
        raise Damage(0, "not gzip: the file is empty")
    while data:
        begin, member = taken, zlib.decompressobj(wbits=31)
        while not member.eof:
            try:
                piece = member.decompress(data, PIECE)
            except zlib.error as error:
                raise Damage(taken, _gzip_fault(taken, begin, error)) from None
            rest = member.unused_data if member.eof else member.unconsumed_tail
            taken += len(data) - len(rest)
            if piece:
                yield piece
            data = rest if member.eof else rest or file.read(_INPUT)
            if not (data or piece or member.eof):
                raise Damage(taken, "the gzip data is cut off here")
        while data := data or file.read(_INPUT):
            zeros = len(data) - len(data.lstrip(b"\0"))
            taken, data = taken + zeros, data[zeros:]
            if data:
                break


def _gzip_fault(taken: int, begin: int, error: zlib.error) -> str:
    if "header" in str(error) and begin == taken:
        return "something that is not gzip follows the gzip data" if begin else "not gzip"
    return f"the gzip data near here is damaged ({str(error).rpartition(': ')[2]})"
