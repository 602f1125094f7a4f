"""Faults: what is wrong with one record, and how it reaches people: an error that ends the part, or a ``Skip``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dsbuild.errors import BuildError, Where
from dsbuild.interfaces import Skip

SKIP_HINT = 'mend the record, or leave such records out (counted and listed) with on_error = "skip"'
_SHOWN = 48


class Fault(Exception):
    """A record that can't be used.

    ``reason`` is the same on every Python (it stands in lists of skipped records); ``detail`` (the value seen) need not
    be. ``at``: byte inside the record, None = all of it. ``final``: what comes after can't be trusted either, so the
    record can't be skipped.
    """

    def __init__(
        self,
        reason: str,
        *,
        detail: str = "",
        at: int | None = None,
        kind: str = "bad-record",
        hint: str = SKIP_HINT,
        final: bool = False,
    ) -> None:
        super().__init__(reason)
        self.final = final
        self.reason, self.detail, self.at, self.kind, self.hint = reason, detail, at, kind, hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a record stands: ``name`` ("line", "row" or "file") and ``number`` from 1, ``byte`` in the decoded file."""

    name: str
    number: int
    byte: int | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.number}" if self.name != "file" else "the file"


def settle(path: Path, place: Place, record: int, fault: Fault, skipped: list[Skip] | None) -> None:
    """List record number ``record`` of ``path`` in ``skipped``, or raise ``BuildError`` where there is no such list."""
    if skipped is not None and not fault.final:
        skipped.append(Skip(record=record, place=str(place), reason=fault.reason))
        return
    spot = "" if place.name == "file" else f" {place}"
    if place.byte is not None:
        spot += f"{',' if spot else ''} byte {place.byte + (fault.at or 0)}"
    message = f"{path}:{spot}: {fault.reason}" + (f": {fault.detail}" if fault.detail else "")
    where = Where(path=str(path), line=place.number if place.name == "line" else None)
    raise BuildError(message, kind=fault.kind, where=where, hint=fault.hint)


def excerpt(data: bytes | str, at: int = 0) -> str:
    """A short quotation of ``data`` around position ``at``, printable."""
    begin = max(at - _SHOWN // 3, 0)
    part = data[begin : begin + _SHOWN]
    text = part.decode("utf-8", "backslashreplace") if isinstance(part, bytes) else part
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return ("…" if begin else "") + shown + ("…" if begin + _SHOWN < len(data) else "")


def decode(raw: bytes) -> str:
    """``raw`` as text. Raises ``Fault`` (``bad-encoding``) with the byte where it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{raw[error.start]:02x} in '{excerpt(raw, error.start)}'"
        hint = f"write the file as UTF-8 (`iconv -t UTF-8`); {SKIP_HINT.partition(', or ')[2]}"
        raise Fault("not UTF-8", detail=wrong, at=error.start, kind="bad-encoding", hint=hint) from None
