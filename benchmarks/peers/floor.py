"""Floor: the same windows copied by plain means from one warm map of a flat file, their order known beforehand.

Usage: floor.py FLAT LENGTH SIZE. For each line of stdin, a number of seconds, a line with M tokens/s on stdout: a
process of its own, so that what other loaders do in the background of theirs does not hold it up.
"""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rates import Endless

C_GATHER = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
void gather(const uint16_t *from, const int64_t *starts, int64_t rows, int64_t length, uint16_t *out) {
    for (int64_t i = 0; i < rows; i++) memcpy(out + i * length, from + starts[i], (size_t)length * 2);
}
"""


def mapped(path: str | Path, *, populate: bool = True) -> np.ndarray:
    """uint16[n]: a plain ndarray view of a read-only map of the file."""
    with Path(path).open("rb") as file:
        flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if populate else 0)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ), np.uint16)


def numpy_batches(view: np.ndarray, starts: np.ndarray, length: int, size: int) -> Iterator[np.ndarray]:
    """The windows that begin at ``starts`` as batches, each in the same array."""
    first = starts[: len(starts) // size * size].reshape(-1, size)
    order = [list(zip(row, [a + length for a in row], strict=True)) for row in first.tolist()]
    out = np.empty((size, length), np.uint16)
    for spans in order:
        for i, (a, b) in enumerate(spans):
            out[i] = view[a:b]
        yield out


def c_batches(
    gather: Callable[..., None], view: np.ndarray, starts: np.ndarray, length: int, size: int
) -> Iterator[np.ndarray]:
    """As ``numpy_batches``, a call of C a batch."""
    out = np.empty((size, length), np.uint16)
    base, at, into = view.ctypes.data, starts.ctypes.data, out.ctypes.data
    for n in range(len(starts) // size):
        gather(base, at + n * size * 8, size, length, into)
        yield out


def c_gather() -> Callable[..., None] | None:
    """``gather`` compiled now, or None where there is no gcc."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "gather.so"
        source = Path(name) / "gather.c"
        source.write_text(C_GATHER)
        subprocess.run([gcc, "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        found = ctypes.CDLL(str(library)).gather
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    found.restype = None
    return found  # type: ignore[no-any-return]


class Apart:
    """The floor in a process of its own; ``rate`` as ``Endless.rate``."""

    def __init__(self, path: str, length: int, size: int) -> None:
        command = [sys.executable, __file__, path, str(length), str(size)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def rate(self, seconds: float) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        return float(self._process.stdout.readline())


if __name__ == "__main__":
    length, size = int(sys.argv[2]), int(sys.argv[3])
    view = mapped(sys.argv[1])
    starts = np.random.default_rng(0).permutation(len(view) // length) * length
    endless = Endless(lambda: numpy_batches(view, starts, length, size), length * size)
    for line in sys.stdin:
        print(endless.rate(float(line)), flush=True)
