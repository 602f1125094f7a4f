"""Borders of parts, chosen by content (version 1 of the cut rule).

Whether a border stands after a record depends on that record and on how far back the last border is, so that an
inserted record disturbs only the cut that it falls in: the next border of the old text is found again. The same
idea as content-defined chunking (Muthitacharoen, Chen, Mazieres: LBFS, SOSP 2001), on records instead of a window.
"""

from __future__ import annotations

from collections.abc import Iterable

from blake3 import blake3

from dsbuild.digest import Digest, Domain, hasher
from dsbuild.interfaces import Cut, CutRule

_SPAN = 1 << 64


def chance(data: bytes | memoryview) -> int:
    """64 bits that decide about a border after ``data``: first 8 bytes, little-endian, of BLAKE3 in ``Domain.CUTS``."""
    state = hasher(Domain.CUTS)
    state.update(data)
    return _draw(state)


def is_border(rule: CutRule, taken: int, size: int, draw: int) -> bool:
    """Whether a border stands after a record of ``size`` bytes that brings the cut to ``taken`` bytes.

    ``draw``: its ``chance``. Borders are about ``part_bytes`` / 4 apart once ``least`` is reached; forced at ``most``.
    """
    return taken >= rule.most or (taken >= rule.least and draw < size * _SPAN // max(rule.part_bytes // 4, 1))


class Cutter:
    """Gathers runs of records and closes cuts; holds one hash state, never the bytes.

    ``at``: units so far; ``number``: records so far; ``taken``: bytes in the open cut; ``head``: bytes that the content
    of each further cut begins with.
    """

    __slots__ = ("_first", "_start", "_state", "at", "cuts", "head", "number", "taken")

    def __init__(self, head: bytes = b"", start: int = 0) -> None:
        self.cuts: list[Cut] = []
        self.at = self._start = start
        self.number = self._first = self.taken = 0
        self.head = head
        self._state = self._fresh()

    def take(self, data: bytes | memoryview, *, records: int = 0, units: int | None = None) -> None:
        """Add ``data`` with its ``records`` to the open cut; ``units`` where they are not bytes."""
        self._state.update(data)
        self.taken += len(data)
        self.at += len(data) if units is None else units
        self.number += records

    def take_unit(
        self, rule: CutRule, label: bytes, data: Iterable[bytes], *, size: int, records: int, units: int
    ) -> None:
        """Add a row group or batch of ``size`` bytes, and close where the rule says.

        Such units are large: a border stands also before one that would bring the cut beyond ``most``. ``label``: what
        the content has before the unit's bytes.
        """
        if self.number > self._first and self.taken + size > rule.most:
            self.close()
        draw = hasher(Domain.CUTS)
        self._state.update(label)
        for piece in data:
            self._state.update(piece)
            draw.update(piece)
        self.taken, self.at, self.number = self.taken + size, self.at + units, self.number + records
        if is_border(rule, self.taken, size, _draw(draw)):
            self.close()

    def close(self) -> None:
        """End the open cut here."""
        content = Digest(self._state.digest())
        self.cuts.append(Cut(start=self._start, stop=self.at, first=self._first, content=content))
        self._start, self._first, self.taken = self.at, self.number, 0
        self._state = self._fresh()

    def finish(self) -> tuple[Cut, ...]:
        """All cuts: at least one, which may be empty."""
        if self.at > self._start or not self.cuts:
            self.close()
        return tuple(self.cuts)

    def _fresh(self) -> blake3:
        state = hasher(Domain.FILE)
        state.update(self.head)
        return state


def _draw(state: blake3) -> int:
    return int.from_bytes(state.digest(length=8), "little")
