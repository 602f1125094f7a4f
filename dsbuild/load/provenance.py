"""Provenance: the files that stored records were made of, through branches, concatenations and other recipes' nodes.

Only derivations and manifests are read. A record's ``@record`` says which segment of its part it came from; parts that
were made of another node's parts have the segments of those.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, DsbuildError, NotFoundError
from dsbuild.graph import Derivation
from dsbuild.load.opening import derivation_of
from dsbuild.load.part import Ints
from dsbuild.schema import SEGMENT_BITS
from dsbuild.store import Manifest, Store
from dsbuild.store.names import Names, printable, read_names

NUMBER = (1 << SEGMENT_BITS) - 1
"""The bits of an ``@record`` that count records; those above are the segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a source: its ``id`` (``b3:``, the BLAKE3 of its content, and a suffix where readers go by it), its
    ``ordinal`` in the source's list of files, and its ``name`` as the recipe's lock has it, where that is known."""

    id: str
    ordinal: int
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lineage:
    """The files below a ``records`` derivation, numbered one after the other: ``lists`` are the ids of the files of
    each ``source`` derivation. Part i is made of segments ``part_segments[i]`` to ``part_segments[i + 1]`` (int64
    [n + 1]); segment j begins with record ``segment_first[j]`` of file ``segment_file[j]`` (int64[m] each)."""

    records: Digest
    lists: tuple[tuple[Digest, Sequence[str]], ...]
    part_segments: Ints
    segment_file: Ints
    segment_first: Ints
    starts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = np.cumsum([0, *(len(ids) for _, ids in self.lists)]).tolist()
        object.__setattr__(self, "starts", tuple(sizes))

    def __len__(self) -> int:
        return self.starts[-1]

    def file(self, ordinal: int, told: Known) -> File:
        """File number ``ordinal``."""
        at = bisect_right(self.starts, ordinal) - 1
        source, ids = self.lists[at]
        index, names = ordinal - self.starts[at], told.files(source)
        return File(id=ids[index], ordinal=ordinal, name=printable(names[index]) if index < len(names) else None)

    def ids(self) -> Iterator[str]:
        """The ids of all files, in order."""
        return (text for _, ids in self.lists for text in ids)

    def names(self, told: Known) -> Iterator[tuple[int, str]]:
        """(ordinal, printable name) of the files whose names are known."""
        for (source, ids), first in zip(self.lists, self.starts, strict=False):
            for index, name in enumerate(told.files(source)[: len(ids)], first):
                yield index, printable(name)

    def sources(self, part: int, origins: Ints) -> tuple[Ints, Ints]:
        """(ordinal of the file, record number in it) of rows of ``part`` whose ``@record`` is ``origins`` (int64)."""
        first, last = int(self.part_segments[part]), int(self.part_segments[part + 1])
        segments = (origins >> SEGMENT_BITS) + first
        if len(origins) and not first <= int(segments.min()) <= int(segments.max()) < last:
            raise CorruptError(
                f"records {self.records.short}, part {part}: its @record names segment {int(segments.max()) - first} "
                f"of {last - first}",
                kind="corrupt",
                hint="'dsbuild verify' lists all damage",
            )
        return self.segment_file[segments], self.segment_first[segments] + (origins & NUMBER)

    def place(self, ordinal: int, record: int) -> tuple[int, int] | None:
        """(part, ``@record``) that record number ``record`` of a file has, if it has any row; None for no part."""
        segments = np.flatnonzero(self.segment_file == ordinal)
        at = int(np.searchsorted(self.segment_first[segments], record, "right")) - 1
        if at < 0:
            return None
        segment = int(segments[at])
        part = int(np.searchsorted(self.part_segments, segment, "right")) - 1
        number = record - int(self.segment_first[segment])
        if number > NUMBER:
            return None
        return part, ((segment - int(self.part_segments[part])) << SEGMENT_BITS) + number

    def is_last(self, ordinal: int, part: int, origin: int) -> bool:
        """Whether no segment of the file follows the one that ``origin`` of ``part`` is in."""
        segment = int(self.part_segments[part]) + (origin >> SEGMENT_BITS)
        return segment == int(np.flatnonzero(self.segment_file == ordinal)[-1])


@dataclass(slots=True)
class Known:
    """The names of sources and files: those given, and of other recipes' files those that the store's roots know."""

    store: Store
    names: Names
    others: list[Names] | None = field(default=None, repr=False)

    def source(self, view: Digest) -> str | None:
        """The name of the source that ``view`` is of."""
        return self.names.source(view)

    def files(self, source: Digest) -> Sequence[str]:
        """The names of the files of a ``source`` derivation, in order; none if they are not known."""
        if source.hex in self.names.files:
            return self.names.files[source.hex]
        if self.others is None:
            self.others = _names_of_roots(self.store)
        return next((n.files[source.hex] for n in self.others if source.hex in n.files), ())


def known(store: Store, digest: Digest, names: Names | None) -> Known:
    """``names``, or those that the store keeps of the recipe's hash ``digest``."""
    return Known(store, read_names(store, digest) if names is None else names)


def _names_of_roots(store: Store) -> list[Names]:
    try:
        roots = store.roots.list()
    except DsbuildError:
        return []  # names are a convenience
    return [read_names(store, root.digest) for root in roots if root.current]


def records_of(store: Store, view: Digest) -> Digest:
    """The ``records`` derivation under a view of a mixture."""
    at = view
    while (derivation := derivation_of(store, at)).kind != "records":
        at = next(iter(derivation.references()))
    return at


def lineage_of(store: Store, records: Digest, seen: dict[Digest, Lineage] | None = None) -> Lineage:
    """The lineage of a ``records`` derivation that is built. Raises ``NotFoundError`` and ``CorruptError``."""
    seen = {} if seen is None else seen
    if records in seen:
        return seen[records]
    manifest = store.manifest(records)
    if manifest is None:
        raise NotFoundError(
            f"records {records.short}: not built in the store at {store.root}, and others were made of them",
            kind="not-built",
            hint="'dsbuild build' of the recipe that they belong to makes them again",
        )
    bases = _bases(store, records)
    below = [lineage_of(store, digest, seen) for digest, base in bases if base.kind == "records"]
    lists: list[tuple[Digest, Sequence[str]]] = []
    inherited: list[tuple[Lineage, int]] = []
    local, flat, first = [0], [0], 0  # a base that is a records node counts as one file in the manifest's own numbers
    rest = iter(below)
    for digest, base in bases:
        if base.kind == "source":
            lists.append((digest, base.inputs))  # type: ignore[arg-type]
            first += len(base.inputs)
        else:
            lineage = next(rest)
            inherited.append((lineage, first))
            lists += lineage.lists
            first += len(lineage)
        local.append(local[-1] + len(base.inputs))
        flat.append(first)
    if not below:
        segments, files, firsts = manifest.part_segments, manifest.segment_file, manifest.segment_first
    else:
        files = manifest.segment_file
        files = files + (np.array(flat) - np.array(local))[np.searchsorted(local, files, "right") - 1]
        segments, files, firsts = _filled(records, manifest, files, inherited)
    if len(files) and not 0 <= int(files.min()) <= int(files.max()) < first:
        raise CorruptError(f"records {records.short}: names file {int(files.max())} of {first}", kind="corrupt")
    if segments[0] != 0 or segments[-1] != len(files) or (np.diff(segments) < 0).any():
        raise CorruptError(f"records {records.short}: its parts are not made of its segments in order", kind="corrupt")
    found = Lineage(
        records=records, lists=tuple(lists), part_segments=segments, segment_file=files, segment_first=firsts
    )
    return seen.setdefault(records, found)


def _filled(
    records: Digest, manifest: Manifest, files: Ints, inherited: Sequence[tuple[Lineage, int]]
) -> tuple[Ints, Ints, Ints]:
    """(part_segments, segment_file, segment_first) where parts without segments, in order, have those of ``inherited``.

    ``inherited``: lineages, and the number that the first file of each has here.
    """
    counts = np.diff(manifest.part_segments)
    empty = np.flatnonzero(counts == 0)
    given = np.concatenate([np.diff(lineage.part_segments) for lineage, _ in inherited])
    if len(empty) != len(given):
        raise CorruptError(
            f"records {records.short}: {len(empty)} parts are made of {len(given)} parts of other records",
            kind="corrupt",
        )
    all_counts = counts.copy()
    all_counts[empty] = given
    segments = np.concatenate([[0], np.cumsum(all_counts)])
    owners = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.repeat(empty, given)])
    order = np.argsort(owners, kind="stable")
    ordinals = np.concatenate([files, *(lineage.segment_file + first for lineage, first in inherited)])
    firsts = np.concatenate([manifest.segment_first, *(lineage.segment_first for lineage, _ in inherited)])
    return segments, ordinals[order], firsts[order]


def _bases(store: Store, records: Digest) -> list[tuple[Digest, Derivation]]:
    """The ``source`` and ``records`` derivations that the records are made of, in order."""
    found = []
    left = list(derivation_of(store, records).references())
    while left:
        at = left.pop()
        derivation = derivation_of(store, at)
        if derivation.kind in ("source", "records"):
            found.append((at, derivation))
        else:
            left += reversed(list(derivation.references()))
    return found
