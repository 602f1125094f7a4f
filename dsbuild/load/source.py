"""Source: one view of a mixture as numbered examples: which part, which tokens; arithmetic over manifests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.graph import Derivation
from dsbuild.load.part import Ints, Part, open_part
from dsbuild.load.pieces import Pieces, bin_pieces, by_part, cut, record_pieces, window_pieces
from dsbuild.load.shape import Shape
from dsbuild.order.deal import Deal, part_order, reader_parts
from dsbuild.order.pack import concat_count
from dsbuild.order.view import first_files
from dsbuild.store import Manifest, Store, StoredObject

PARTS_OPEN = 2048
"""Parts of a dataset that stay open, those last used: the kernel allows a process 65,530 maps."""

Opened = dict[tuple[Digest, int], Part]
"""Open parts by source and number, those last used at the end; the sources of a dataset share it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Source:
    """A view: its derivation digest, its ``name`` in the recipe if that is known, and ``length`` examples.

    Parts are opened at first use and kept.

    ``records``: the manifest of its records; ``selection`` and ``packing``: those of its split and its packing, part
    by part the same. Its parts stand in the order ``parts`` (int64[p]) and have ``starts`` (int64[p + 1]) tokens, or
    examples where examples do not cross parts, before them. Reader r of an interleaved source begins at
    ``readers[r]`` of these (int64[R + 1]); others have one reader.
    """

    digest: Digest
    name: str | None
    store: Store
    shape: Shape
    records: Manifest
    selection: Manifest | None
    packing: Manifest | None
    parts: Ints
    starts: Ints
    readers: Ints
    deal: Deal
    length: int
    opened: Opened = field(repr=False)

    def __repr__(self) -> str:
        return f"<Source {self}: {self.length:,} examples>"

    def __str__(self) -> str:
        return self.digest.short if self.name is None else f"'{self.name}' ({self.digest.short})"

    @property
    def tokens(self) -> int:
        """Number of tokens of one epoch."""
        sizes = self.packing or self.selection or self.records
        return int(sizes.elements["input_ids"].sum()) if "input_ids" in sizes.elements else 0

    def part(self, number: int) -> Part:
        """Part ``number`` of the records. Raises ``CorruptError`` or ``NotFoundError`` naming source and part."""
        # without a lock, which a fork could find held: each step is atomic; of two threads both may open a part, either
        # is right, and a part too many does no harm
        part = self.opened.pop((self.digest, number), None)
        if part is None:
            part = self._open(number)
            over = len(self.opened) - PARTS_OPEN
            if over >= 0:
                for oldest in list(self.opened)[: over + max(PARTS_OPEN // 32, 1)]:
                    self.opened.pop(oldest, None)
        self.opened[self.digest, number] = part
        return part

    def _open(self, number: int) -> Part:
        try:
            part = open_part(
                number,
                str(self),
                self._object(self.records, number),
                None if self.selection is None else self._object(self.selection, number),
                None if self.packing is None else self._object(self.packing, number),
                own=self.shape.own_labels and "labels" in self.records.schema,
                runs=self.shape.pack == "concat",
            )
            if part.runs is not None and self.selection is not None:
                tokens, told = int(part.runs[0][-1]), int(self.selection.elements["input_ids"][number])
                if tokens != told:
                    raise CorruptError(f"has {tokens} tokens where its manifest says {told}", kind="corrupt")
            return part
        except (CorruptError, NotFoundError) as error:
            place, first = f"source {self}, part {number}", error.diagnostics[0]
            message = first.message if first.message.startswith(place) else f"{place}: {first.message}"
            raise type(error)(message, kind=error.kind, hint=first.hint) from None

    def _object(self, manifest: Manifest, number: int) -> StoredObject:
        """The object of a part, of as many rows as its manifest says."""
        found, rows = self.store.object(manifest.content(number)), int(manifest.records[number])
        if found.records != rows:
            raise CorruptError(f"has {found.records} rows where its manifest says {rows}", kind="corrupt")
        return found

    def close(self) -> None:
        """Forget the open parts, of all sources that share them."""
        self.opened.clear()

    def places(self, examples: Ints) -> tuple[Ints, Ints]:
        """(place in ``parts``, number inside the part) of examples that do not cross parts."""
        at = self._along(examples)
        place = np.searchsorted(self.starts, at, "right") - 1
        return place, at - self.starts[place]

    def rows(self, examples: Ints) -> tuple[Ints, Ints]:
        """(part, row of its object) of ``examples`` that are one record each."""
        place, inside = self.places(examples)
        numbers, rows = self.parts[place], inside.copy()
        if self.selection is not None or self.packing is not None:
            for number, places in by_part(numbers):
                part = self.part(number)
                if part.bins is not None:
                    chosen, borders = part.bins.column("row")
                    assert borders is not None
                    rows[places] = chosen[borders[inside[places]]]
                elif part.rows is not None:
                    rows[places] = part.rows[inside[places]]
        return numbers, rows

    def pieces(self, examples: Ints) -> Pieces:
        """Where the tokens of ``examples`` (int64[k], each 0 <= i < length) lie."""
        most = self.shape.length + 1
        if self.shape.pack != "concat":
            if not self.shape.packed:
                return record_pieces(*self.rows(examples), most, self.part)
            place, inside = self.places(examples)
            return bin_pieces(self.parts[place], inside, most, self.part)
        starts, stops = self.windows(examples)
        owner, place, low, high = cut(starts, stops, self.starts)
        before = self.starts[place]
        return window_pieces(owner, self.parts[place], low - before, high - before, self.part)

    def windows(self, examples: Ints) -> tuple[Ints, Ints]:
        """[start, stop) of the tokens of ``examples`` along ``starts``: L + 1 of them but at a reader's end."""
        length = self.shape.length
        if len(self.readers) == 2:
            starts = examples * length
            return starts, np.minimum(starts + length + 1, self.readers[1])
        reader, index = self.deal(examples)
        starts = self.readers[reader] + index * length
        return starts, np.minimum(starts + length + 1, self.readers[reader + 1])

    def _along(self, examples: Ints) -> Ints:
        """Where examples that do not cross parts stand along ``starts``."""
        if len(self.readers) == 2:
            return examples
        reader, index = self.deal(examples)
        return np.asarray(self.readers[reader] + index)


def open_source(
    store: Store, lookup: Callable[[Digest], Derivation], digest: Digest, shape: Shape, opened: Opened, name: str | None
) -> Source:
    """The view ``digest``: a ``records`` derivation under ``split``, ``pack`` and ``order`` in this order, if any.

    Raises ``NotFoundError`` if it is not built.
    """
    derivation, at = lookup(digest), digest
    found: dict[str, Manifest] = {}
    readers = 0
    if derivation.kind == "order":
        readers = int(derivation.arguments["readers"])
        (at,) = derivation.references()
        derivation = lookup(at)
    for kind in ("pack", "split"):
        if derivation.kind == kind:
            found[kind] = _manifest(store, at)
            (at,) = derivation.references()
            derivation = lookup(at)
    records = _manifest(store, at)
    for kind, manifest in found.items():
        if len(manifest) != len(records):
            raise CorruptError(f"a {kind} has another number of parts than its records", kind="corrupt")
    sizes = found.get("pack") or found.get("split") or records
    column = "input_ids" if shape.pack == "concat" else ""
    parts = np.arange(len(records))
    starts = sizes.starts.get(column, np.zeros(len(records) + 1, np.int64))
    borders = np.array([0, starts[-1]], np.int64)
    if readers:
        dealt = reader_parts(part_order(first_files(records.part_segments, records.segment_file)), readers)
        parts = np.concatenate(dealt)
        starts = np.concatenate([[0], np.cumsum(np.diff(starts)[parts])]).astype(np.int64)
        borders = starts[np.concatenate([[0], np.cumsum([len(d) for d in dealt])])]
    counts = np.diff(borders)
    if shape.pack == "concat":
        counts = np.array([concat_count(int(n), shape.length) for n in counts], np.int64)
    return Source(
        digest=digest,
        name=name,
        store=store,
        shape=shape,
        records=records,
        selection=found.get("split"),
        packing=found.get("pack"),
        parts=parts,
        starts=starts,
        readers=borders,
        deal=Deal(counts),
        length=int(counts.sum()),
        opened=opened,
    )


def _manifest(store: Store, digest: Digest) -> Manifest:
    manifest = store.manifest(digest)
    if manifest is None:
        raise NotFoundError(
            f"{digest.short}: not built in the store at {store.root}",
            kind="not-built",
            hint="'dsbuild build RECIPE' makes what is missing",
        )
    return manifest
