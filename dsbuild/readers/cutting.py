"""Borders of parts, chosen by content (version 1 of the cut rule).

Whether a border stands after a record depends on that record and on how far back the last border is, so that an
inserted record disturbs only the cut that it falls in: the next border of the old text is found again. The same
idea as content-defined chunking (Muthitacharoen, Chen, Mazieres: LBFS, SOSP 2001), on records instead of a window.
"""

from __future__ import annotations

from blake3 import blake3

from dsbuild.digest import Digest, Domain, hasher
from dsbuild.interfaces import Cut, CutRule

_SPAN = 1 << 64


def chance(data: bytes | memoryview) -> int:
    """64 bits that decide about a border after ``data``: first 8 bytes, little-endian, of BLAKE3 in ``Domain.CUTS``."""
    state = hasher(Domain.CUTS)
    state.update(data)
    return int.from_bytes(state.digest(length=8), "little")


def is_border(rule: CutRule, taken: int, size: int, draw: int) -> bool:
    """Whether a border stands after a record of ``size`` bytes that brings the cut to ``taken`` bytes.

    ``draw``: its ``chance``. Borders are about ``part_bytes`` / 4 apart once ``least`` is reached; forced at ``most``.
    """
    return taken >= rule.most or (taken >= rule.least and draw < size * _SPAN // max(rule.part_bytes // 4, 1))


class Cutter:
    """Gathers runs of records and closes cuts; holds one hash state, never the bytes."""

    __slots__ = ("_first", "_head", "_start", "_state", "at", "cuts", "number")

    def __init__(self, head: bytes = b"", start: int = 0) -> None:
        self.cuts: list[Cut] = []
        self.at = self._start = start
        self.number = self._first = 0
        self._head = head
        self._state = self._fresh()

    @property
    def taken(self) -> int:
        """Bytes in the open cut."""
        return self.at - self._start

    def take(self, data: bytes | memoryview, records: int, size: int | None = None) -> None:
        """Add ``records`` records, ``data`` in the content, to the open cut; ``size`` in units where not bytes."""
        self._state.update(data)
        self.at += len(data) if size is None else size
        self.number += records

    def close(self) -> None:
        """End the open cut here."""
        content = Digest(self._state.digest())
        self.cuts.append(Cut(start=self._start, stop=self.at, first=self._first, content=content))
        self._start, self._first = self.at, self.number
        self._state = self._fresh()

    def finish(self) -> tuple[Cut, ...]:
        """All cuts: at least one, which may be empty."""
        if self.taken or not self.cuts:
            self.close()
        return tuple(self.cuts)

    def _fresh(self) -> blake3:
        state = hasher(Domain.FILE)
        state.update(self._head)
        return state
