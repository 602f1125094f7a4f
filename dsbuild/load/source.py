"""Source: one view of a mixture as numbered examples: which part, which tokens; arithmetic over manifests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.graph import Derivation
from dsbuild.load.part import Part, open_part
from dsbuild.order.deal import Deal, part_order, reader_parts
from dsbuild.order.pack import concat_count, concat_spans
from dsbuild.store import Manifest, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of an example: tokens [start, stop) of part ``part``."""

    part: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The parts that one ideal reader takes, in order, with prefix sums of their records or tokens (int64[n+1])."""

    parts: np.ndarray
    starts: np.ndarray

    @property
    def total(self) -> int:
        """Records or tokens in all."""
        return int(self.starts[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A view: its derivation digest, label, and ``length`` examples. Parts are opened at first use and kept."""

    digest: Digest
    records: Manifest
    selection: Manifest | None
    lines: tuple[Line, ...]
    length: int
    window: int
    packed: bool
    store: Store
    deal: Deal
    opened: dict[int, Part] = field(default_factory=dict, compare=False, repr=False)

    def part(self, number: int) -> Part:
        """Part ``number`` of the records. Raises ``CorruptError`` or ``NotFoundError`` naming the part."""
        part = self.opened.get(number)
        if part is None:
            contents = self.records.content(number)
            chosen = None if self.selection is None else self.store.object(self.selection.content(number))
            part = open_part(self.store.object(contents), chosen, "input_ids" if self._tokens else None)
            self.opened[number] = part  # two threads may both open it; either result is right
        return part

    @property
    def _tokens(self) -> bool:
        return "input_ids" in self.records.elements

    def spans(self, index: int) -> list[Span]:
        """The pieces of example ``index`` (0 <= index < length), in order."""
        line, at = self.lines[0], index
        if len(self.lines) > 1:
            readers, inner = self.deal(np.array([index], np.int64))
            line, at = self.lines[int(readers[0])], int(inner[0])
        if not self.packed:
            return [self._record(line, at)]
        starts, stops = concat_spans(line.total, self.window, np.array([at], np.int64))
        start, stop = int(starts[0]), int(stops[0])
        found = []
        place = int(np.searchsorted(line.starts, start, "right")) - 1
        while start < stop:
            base, upto = int(line.starts[place]), min(stop, int(line.starts[place + 1]))
            if upto > start:
                found.append(Span(part=int(line.parts[place]), start=start - base, stop=upto - base))
            start, place = upto, place + 1
        return found

    def _record(self, line: Line, at: int) -> Span:
        place = int(np.searchsorted(line.starts, at, "right")) - 1
        return Span(
            part=int(line.parts[place]), start=at - int(line.starts[place]), stop=at - int(line.starts[place]) + 1
        )


def open_source(
    store: Store, lookup: Callable[[Digest], Derivation], digest: Digest, *, window: int, packed: bool
) -> Source:
    """The view ``digest`` (a ``records``, ``split`` or ``order`` derivation). Raises ``NotFoundError`` if not built."""
    derivation, readers, at = lookup(digest), 0, digest
    if derivation.kind == "order":
        readers = int(derivation.arguments["readers"])
        (at,) = derivation.references()
        derivation = lookup(at)
    selection: Manifest | None = None
    if derivation.kind == "split":
        selection = _manifest(store, at)
        (at,) = derivation.references()
    records = _manifest(store, at)
    if selection is not None and len(selection.records) != len(records.records):
        raise CorruptError("a split has another number of parts than its records", kind="corrupt")
    sizes = selection or records
    counts = sizes.elements.get("input_ids", np.zeros(len(sizes.records), np.int64)) if packed else sizes.records
    lines = _lines(records, counts, readers)
    lengths = [concat_count(line.total, window) if packed else line.total for line in lines]
    return Source(
        digest=digest,
        records=records,
        selection=selection,
        lines=lines,
        length=sum(lengths),
        window=window,
        packed=packed,
        store=store,
        deal=Deal(lengths),
    )


def _lines(records: Manifest, counts: np.ndarray, readers: int) -> tuple[Line, ...]:
    if not readers:
        return (_line(np.arange(len(counts)), counts),)
    dealt = reader_parts(part_order(_first_files(records)), readers)
    return tuple(_line(parts, counts) for parts in dealt)


def _first_files(records: Manifest) -> np.ndarray:
    """int64[n]: the file that each part begins in; parts made of other nodes' parts count as files of their own."""
    firsts = records.part_segments[:-1]
    if len(records.segment_file) == 0 or (np.diff(records.part_segments) == 0).any():
        return np.arange(len(records))
    return np.asarray(records.segment_file[firsts])


def _line(parts: np.ndarray, counts: np.ndarray) -> Line:
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(counts[parts], out=starts[1:])
    return Line(parts=parts, starts=starts)


def _manifest(store: Store, digest: Digest) -> Manifest:
    manifest = store.manifest(digest)
    if manifest is None:
        raise NotFoundError(
            f"{digest.short}: not built in the store at {store.root}",
            kind="not-built",
            hint="'dsbuild build RECIPE' makes what is missing",
        )
    return manifest
