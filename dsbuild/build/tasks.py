"""Tasks: the picklable units of work, of retry, of resume and of reuse, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsbuild.digest import Digest
from dsbuild.interfaces import Cut, CutRule, CutTable, Skip
from dsbuild.order.split import Range
from dsbuild.schema import Schema

Signature = tuple[int, int, int, int]
"""(size, mtime_ns, ctime_ns, inode) of a file when its content was known to be what the lock says."""


def signature(path: Path) -> Signature:
    """The signature of ``path`` now. Raises ``OSError``."""
    s = path.stat()
    return (s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of a source: its ordinal in the ordered list, its name for people, its path and signature here."""

    ordinal: int
    name: str
    path: Path
    content: Digest
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A cut of one file inside a part; a part of grouped small files has several."""

    file: SourceFile
    cut: Cut
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a source's files are read: what of it decides bytes is in the source's derivation too."""

    reader: str
    arguments: Mapping[str, Any]
    skip: bool
    wanted: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """Cut one file by one pass over it; ``key`` names the cut table in the store."""

    key: Digest
    file: SourceFile
    reading: Reading
    rule: CutRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A handler as it is hashed: builder (name@version), arguments, and whether records that it refuses are skipped."""

    builder: str
    arguments: Mapping[str, Any]
    skip: bool = False

    @property
    def name(self) -> str:
        """The builder's name without its version."""
        return self.builder.rpartition("@")[0]

    def as_json(self) -> dict[str, Any]:
        """The hashed form."""
        found = {"builder": self.builder, "arguments": self.arguments}
        return found | {"on_error": "skip"} if self.skip else found


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsTask:
    """Make one part of a ``records`` node from file segments, or from the stored part ``content``.

    ``check``: make it again without looking at or leaving realisations.
    """

    node: Digest
    number: int
    action: Digest
    schema: Schema
    calls: tuple[Call, ...]
    reading: Reading | None = None
    segments: tuple[Segment, ...] = ()
    content: Digest | None = None
    label: str = ""
    bytes: int = 0
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectTask:
    """Select the rows of a stored part that lie in ``chosen``, whose rows count from the part's first.

    ``check``: as in ``RecordsTask``.
    """

    node: Digest
    number: int
    action: Digest
    content: Digest
    chosen: Range
    label: str = ""
    bytes: int = 0
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a segment of a part came from: a file's ``name`` and ``path``, and its first record there."""

    name: str
    path: Path
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackTask:
    """Pack the rows ``selection`` (a split's part, None = all) of the stored part ``content`` into bins.

    ``builder``: "fit" or "each". A bin holds ``length`` + 1 tokens; ``overlong``: what becomes of a longer record.
    ``places``: of the part's segments, where known. ``check``: as in ``RecordsTask``.
    """

    node: Digest
    number: int
    action: Digest
    content: Digest
    selection: Digest | None
    builder: str
    length: int
    overlong: str = "error"
    places: tuple[Place, ...] = ()
    label: str = ""
    bytes: int = 0
    check: bool = False


PartTask = RecordsTask | SelectTask | PackTask
"""A task that makes one part of a node."""

Task = CutTask | PartTask


@dataclass(frozen=True, slots=True, kw_only=True)
class CutDone:
    """What a ``CutTask`` found."""

    key: Digest
    table: CutTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDone:
    """What a part became: its content, counts, and what was skipped. ``cutoff``: a later handler's work was reused."""

    action: Digest
    content: Digest
    records: int
    elements: Mapping[str, int]
    longest: Mapping[str, int]
    skipped: tuple[Skip, ...] = ()
    skipped_count: int = 0
    cutoff: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)
