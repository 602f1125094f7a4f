"""Mapping: the shard files of an array as one run of bytes in memory, without a copy.

The files are mapped one behind the other into one reserved address range (``mmap`` with ``MAP_FIXED`` over a
reservation of our own, so nothing else can be overwritten). Safe because sizes are checked before mapping and
published files are only ever replaced by rename or unlinked: a map keeps the old file. Where that can't be done
(other systems, files that are not whole pages) the bytes are copied.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from dsbuild.errors import CorruptError, StorageError

SMALL = 64 << 10
"""Files up to this size are read: cheaper than a map, and the kernel allows only 65,530 maps."""

_ALIGN = 2 << 20
_FIXED = 0x10
_NO_RESERVE = 0x4000 if sys.platform.startswith("linux") else 0
_FAILED = ctypes.c_void_p(-1).value


class Region:
    """A mapped range of memory; unmapped with the last array that views it."""

    def __init__(self, size: int) -> None:
        self._base: int | None = None
        self._span, self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, size
        spare = _ALIGN if size >= _ALIGN else 0
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        base = _call(_mmap(), 0, self._span + spare, 0, flags, -1, 0)
        self.start = self._base = -(-base // _ALIGN) * _ALIGN if spare else base
        # the kernel counts what is left at both ends as maps of their own
        for at, rest in ((base, self.start - base), (self.start + self._span, base + spare - self.start)):
            if rest:
                _munmap()(at, rest)
        self.__array_interface__ = {"data": (self.start, True), "shape": (size,), "typestr": "|u1", "version": 3}

    def place(self, fd: int, at: int, size: int) -> None:
        """Map the first ``size`` bytes of a file at byte ``at`` of the region, a multiple of the page size."""
        _call(_mmap(), self.start + at, size, mmap.PROT_READ, mmap.MAP_SHARED | _FIXED, fd, 0)

    def __del__(self) -> None:
        if self._base is not None:
            _munmap()(self._base, self._span)


def load(paths: Sequence[str], sizes: Sequence[int], payload: int) -> np.ndarray:
    """uint8 view of the first ``payload`` bytes of each file but the last, and the last one whole; read-only.

    ``sizes`` are the sizes that the files must have. Raises ``CorruptError`` for another size or an absent file.
    """
    total = payload * (len(paths) - 1) + sizes[-1]
    if total <= SMALL or not _possible() or (len(paths) > 1 and payload % mmap.PAGESIZE):
        return _copy(paths, sizes, payload, total)
    region = Region(total)
    for i, path in enumerate(paths):
        last = i == len(paths) - 1
        fd = _open(path, sizes[i])
        try:
            region.place(fd, i * payload, sizes[i] if last else payload)
        finally:
            os.close(fd)
    return np.asarray(region)


RANDOM, WILL_NEED = 1, 3
"""Kinds of advice: no reading ahead of what is touched; begin to read now."""


def advise(address: int, size: int, advice: int) -> None:
    """Tell the kernel how ``size`` bytes at ``address`` will be used. It changes speed alone, so it never fails."""
    if sys.platform.startswith("linux") and size > 0:
        start = address & -mmap.PAGESIZE
        _madvise()(start, address + size - start, advice)


def _copy(paths: Sequence[str], sizes: Sequence[int], payload: int, total: int) -> np.ndarray:
    found = bytearray(total)
    view = memoryview(found)
    for i, path in enumerate(paths):
        fd = _open(path, sizes[i])
        try:
            rest = view[i * payload : i * payload + (sizes[i] if i == len(paths) - 1 else payload)]
            while rest:
                count = os.readv(fd, [rest])
                if not count:
                    raise CorruptError(f"{path}: ended early while it was read", kind="corrupt")
                rest = rest[count:]
        finally:
            os.close(fd)
    array = np.frombuffer(found, np.uint8)
    array.flags.writeable = False
    return array


def _open(path: str, size: int) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CorruptError(f"{path}: is gone", kind="corrupt") from None
    found = os.fstat(fd).st_size
    if found != size:
        os.close(fd)
        raise CorruptError(f"{path}: has {found} bytes, not the {size} that were published", kind="corrupt")
    return fd


def _call(function: Any, *arguments: int) -> int:
    result = function(*arguments)
    if result == _FAILED:
        code = ctypes.get_errno()
        if code == errno.ENOMEM:
            raise StorageError(
                "mmap: the kernel has no room for another map of this process",
                kind="io-error",
                hint="raise vm.max_map_count, or open fewer datasets at once",
            )
        raise OSError(code, f"mmap: {os.strerror(code)}")
    return int(result)


@cache
def _possible() -> bool:
    return (sys.platform.startswith("linux") or sys.platform == "darwin") and ctypes.sizeof(ctypes.c_void_p) == 8


@cache
def _mmap() -> Any:
    call = ctypes.CDLL(None, use_errno=True).mmap
    size, number = ctypes.c_size_t, ctypes.c_int
    call.argtypes, call.restype = [ctypes.c_void_p, size, number, number, number, ctypes.c_int64], ctypes.c_void_p
    return call


@cache
def _madvise() -> Any:
    call = ctypes.CDLL(None, use_errno=True).madvise
    call.argtypes, call.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return call


@cache
def _munmap() -> Any:
    call = ctypes.CDLL(None, use_errno=True).munmap
    call.argtypes, call.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int
    return call


def load_file(path: str) -> np.ndarray | None:
    """uint8 view of a whole file that is only ever replaced by rename; None if it is absent."""
    while True:
        try:
            before = os.stat(path)
            return load([path], [before.st_size], before.st_size)
        except FileNotFoundError:
            return None
        except CorruptError:  # replaced between the two looks?
            if os.path.exists(path) and os.stat(path).st_ino == before.st_ino:
                raise
