"""Records that end at line ends: found by whole blocks with numpy, cut in parts, read and located.

A record ends at a line feed; a carriage return before it and a byte order mark at the start of the file are not part of
the record; blank lines are no records. In quoted formats a line feed between quotes is inside a record: with RFC 4180
quoting that is so exactly where an odd number of quotes stands before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from dsbuild.errors import BuildError, Where
from dsbuild.interfaces import Cut, CutRule, Skip
from dsbuild.readers.cutting import Cutter, chance, is_border
from dsbuild.readers.decompress import pieces
from dsbuild.readers.faults import Fault, Place, settle

BLOCK = 4096
"""Records in a block, at most."""

_BOM = b"\xef\xbb\xbf"
_FOREIGN = (
    (b"\xff\xfe", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 {}"),
    (b"\xfe\xff", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 {}"),
    (b"\x1f\x8b", "gzip", "name it {}.gz, or unpack it"),
    (b"\x28\xb5\x2f\xfd", "zstd", "name it {}.zst, or unpack it"),
)
_LF, _QUOTE = 10, 34

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """``quoted``: line feeds between quotes are inside a record. ``header``: the first record of a file is none, but
    its header. ``blank``: a line of nothing but these bytes is no record.
    """

    quoted: bool = False
    header: bool = False
    blank: bytes = b" \t\r"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Whole lines of a file: ``data`` from byte ``start`` on, ``before`` line feeds after the start of the cut.

    ``ends``: int64[n], the exclusive ends in ``data`` of records and blank lines; ``real``: bool[n], which of them are
    records; ``feeds``: int64, where line feeds stand. ``skip``: bytes of a byte order mark. ``header``: see ``Form``.
    """

    start: int
    before: int
    data: bytes
    ends: np.ndarray
    feeds: np.ndarray
    real: np.ndarray
    skip: int
    header: bytes | None

    def begin(self, i: int) -> int:
        """Where line ``i`` begins in ``data``."""
        return int(self.ends[i - 1]) if i else self.skip

    def raw(self, i: int) -> bytes:
        """The bytes of line ``i`` without its line end."""
        return _stripped(self.data[self.begin(i) : int(self.ends[i])])

    def lines(self, quoted: bool) -> list[bytes]:
        """The bytes of all lines without line feeds (a carriage return may be left)."""
        if quoted:
            stops = self.ends.tolist()
            return [self.data[a:b].removesuffix(b"\n") for a, b in zip([self.skip, *stops], stops, strict=False)]
        found = self.data.split(b"\n")
        if not found[-1]:
            found.pop()
        found[0] = found[0][self.skip :]
        return found


def runs(path: Path, start: int, stop: int | None, form: Form) -> Iterator[Run]:
    """The lines of a range, which must begin and end at borders of records; the last may lack its line feed.

    Raises ``BuildError`` as ``mark``.
    """
    held: list[bytes] = []
    at, before, inside, headed = start, 0, False, not form.header or start > 0

    def run(data: bytes, feeds: np.ndarray, ends: np.ndarray) -> Run:
        nonlocal at, before, headed
        skip = mark(path, data) if at == 0 else 0
        real = _real(data, ends, skip, form.blank)
        header = None
        if not headed and real.any():
            first = int(real.argmax())
            real[first], headed = False, True
            header = _stripped(data[int(ends[first - 1]) if first else skip : int(ends[first])])
        made = Run(start=at, before=before, data=data, ends=ends, feeds=feeds, real=real, skip=skip, header=header)
        at, before = at + len(data), before + len(feeds)
        return made

    feeds_held: list[np.ndarray] = []
    size = 0
    for piece in pieces(path, start, stop):
        flat = np.frombuffer(piece, np.uint8)
        feeds = np.flatnonzero(flat == _LF) + size
        ends = feeds
        if form.quoted:
            quotes = np.flatnonzero(flat == _QUOTE) + size
            ends = feeds[(np.searchsorted(quotes, feeds) & 1) == inside]
            inside ^= bool(len(quotes) & 1)
        feeds_held.append(feeds)
        if not len(ends):
            held.append(piece)
            size += len(piece)
            continue
        stop_at = int(ends[-1]) + 1
        feeds = np.concatenate(feeds_held) if len(feeds_held) > 1 else feeds
        inner = int(np.searchsorted(feeds, stop_at))
        yield run(b"".join([*held, piece[: stop_at - size]]), feeds[:inner], ends + 1)
        rest = piece[stop_at - size :]
        held, feeds_held, size = [rest], [feeds[inner:] - stop_at], len(rest)
    if size:
        data = b"".join(held)
        yield run(data, np.concatenate(feeds_held), np.array([size], np.int64))


def split(path: Path, rule: CutRule, form: Form) -> tuple[tuple[Cut, ...], bytes | None]:
    """The cuts of a file, and its header where the form has one. ``content`` is plain BLAKE3 of the decoded bytes."""
    cutter = Cutter()
    header = None
    for run in runs(path, 0, None, form):
        header = header or run.header
        _cut(cutter, run, rule)
    return cutter.finish(), header


def _cut(cutter: Cutter, run: Run, rule: CutRule) -> None:
    """Add ``run``, closing cuts after the records at which borders stand. Below ``least`` no record is looked at."""
    view = memoryview(run.data)
    done = line = 0
    counted = np.concatenate(([0], np.cumsum(run.real)))
    size = len(run.ends)
    while line < size:
        base = cutter.taken - done  # bytes of the open cut at position 0 of this run
        line = max(line, int(np.searchsorted(run.ends, rule.least - base)))
        while line < size and not (run.real[line] and _ends_cut(run, line, base, rule)):
            line += 1
        if line < size:
            stop = int(run.ends[line])
            first = int(np.searchsorted(run.ends, done, side="right"))
            cutter.take(view[done:stop], records=int(counted[line + 1] - counted[first]))
            cutter.close()
            done, line = stop, line + 1
    first = int(np.searchsorted(run.ends, done, side="right"))
    cutter.take(view[done:], records=int(counted[size] - counted[first]))


def _ends_cut(run: Run, line: int, base: int, rule: CutRule) -> bool:
    stop = int(run.ends[line])
    begin = run.begin(line)
    if base + stop >= rule.most:
        return True
    return is_border(rule, base + stop, stop - begin, chance(run.raw(line)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T]):
    """Records of a block: what ``parse`` made of each, its raw bytes, its int64 number in the cut."""

    values: list[T]
    raw: list[bytes]
    numbers: np.ndarray


def parsed(
    path: Path, cut: Cut, form: Form, parse: Callable[[bytes], T], skipped: list[Skip] | None
) -> Iterator[Found[T]]:
    """The records of a cut through ``parse``, in blocks of at most 4,096 and about 4 MiB.

    A ``Fault`` of ``parse`` raises ``BuildError`` or goes to ``skipped``.
    """
    number, base = 0, None
    for run in runs(path, cut.start, cut.stop, form):
        lines = run.lines(form.quoted)
        chosen = np.flatnonzero(run.real).tolist()
        for begin in range(0, len(chosen), BLOCK):
            values: list[T] = []
            raws: list[bytes] = []
            numbers: list[int] = []
            for i in chosen[begin : begin + BLOCK]:
                raw = lines[i].removesuffix(b"\r")
                try:
                    values.append(parse(raw))
                except Fault as fault:
                    base = _feeds(path, cut.start) if base is None else base
                    settle(path, _place(run, i, base), cut.first + number, fault, skipped)
                else:
                    raws.append(raw)
                    numbers.append(number)
                number += 1
            if values:
                yield Found(values=values, raw=raws, numbers=np.array(numbers, np.int64))


def header_of(path: Path, form: Form) -> bytes | None:
    """The header, or where the form has none the first record, of a file; None if there is none."""
    for run in runs(path, 0, None, form):
        if form.header and run.header is not None:
            return run.header
        if not form.header and run.real.any():
            return run.raw(int(run.real.argmax()))
    return None


def locate(path: Path, cut: Cut, form: Form, record: int) -> str:
    """ "line N" (from 1) for record number ``record`` of a cut, by reading the file up to it."""
    number = 0
    for run in runs(path, cut.start, cut.stop, form):
        here = int(run.real.sum())
        if number + here > record:
            line = int(np.flatnonzero(run.real)[record - number])
            return str(_place(run, line, _feeds(path, cut.start)))
        number += here
    return f"record {cut.first + record + 1}"


def _place(run: Run, line: int, base: int) -> Place:
    begin = run.begin(line)
    feeds = base + run.before + int(np.searchsorted(run.feeds, begin))
    return Place(name="line", number=feeds + 1, byte=run.start + begin)


def _feeds(path: Path, stop: int) -> int:
    """Line feeds before byte ``stop``."""
    return sum(piece.count(b"\n") for piece in pieces(path, 0, stop)) if stop else 0


def _real(data: bytes, ends: np.ndarray, skip: int, blank: bytes) -> np.ndarray:
    """bool[n]: which lines are not blank. Only lines that begin with a blank are looked at one by one."""
    begins = np.concatenate(([skip], ends[:-1]))
    real = np.ones(len(ends), np.bool_)
    if begins[0] >= len(data):  # nothing but a byte order mark
        return ~real
    heads = np.frombuffer(data, np.uint8)[begins]
    for i in np.flatnonzero(np.isin(heads, list(blank + b"\n"))).tolist():
        real[i] = bool(data[begins[i] : ends[i]].strip(blank + b"\n"))
    return real


def mark(path: Path, data: bytes) -> int:
    """Length of the UTF-8 byte order mark that ``data`` begins with, 0 if none.

    Raises ``BuildError`` (``bad-encoding``) where it begins as UTF-16 or compressed data does, which no UTF-8 can.
    """
    for magic, what, hint in _FOREIGN:
        if data.startswith(magic):
            raise BuildError(
                f"{path}: byte 0: not UTF-8 but {what} (0x{magic.hex()})",
                kind="bad-encoding",
                where=Where(path=str(path), line=1),
                hint=hint.format(path.name),
            )
    return len(_BOM) if data.startswith(_BOM) else 0


def _stripped(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")
