"""Trace: what each example of a batch was made of: files, record numbers, token spans. Reads no tokens.

What is read (offsets of tokens, ``@record``, selections, packings) is verified first, so a trace is as true as a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError
from dsbuild.load.part import Ints, Part
from dsbuild.load.pieces import by_part, cut
from dsbuild.load.provenance import File, Known, Lineage, known, lineage_of, records_of
from dsbuild.load.source import Source
from dsbuild.order.partition import Schedule
from dsbuild.schema import RECORD
from dsbuild.store.names import Names

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of tokens of one record in an example.

    ``record``: its number in ``file``, from 0, as the reader counts records (those that were skipped too). ``child``:
    which of the rows that handlers made of the record, from 0. Tokens [``start``, ``stop``) of that row are tokens
    [``row_start``, ``row_stop``) of the example, of which the first L are inputs and the last L targets.
    """

    file: File
    record: int
    child: int
    start: int
    stop: int
    row_start: int
    row_stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The example at ``position`` of the stream: ``example`` of ``source`` (a view's digest; ``name`` where known) in
    its ``epoch``, and the ``pieces`` that it is made of, in order."""

    position: int
    source: Digest
    name: str | None
    epoch: int
    example: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spans:
    """m runs of tokens, each of one row, int64[m]: of example ``owner`` (ascending), row ``row`` of ``part``, its
    tokens [``start``, ``start`` + ``size``)."""

    owner: Ints
    part: Ints
    row: Ints
    start: Ints
    size: Ints


def trace(
    dataset: Dataset,
    step: int,
    size: int | Schedule,
    rank: int = 0,
    world: int = 1,
    *,
    uneven: bool = False,
    names: Names | None = None,
) -> list[Traced]:
    """Each example of ``rank``'s rows of step ``step``, in order. See ``Dataset.trace``.

    ``names``: what people call sources and files; by default what the store keeps of the dataset's hash.
    """
    first, last = dataset.share(step, size, rank, world, uneven=uneven)
    if first == last:
        return []
    told = known(dataset.store, dataset.digest, names)
    sources, epochs, examples = dataset.locate([(first, last)])
    pieces: dict[int, list[Piece]] = {}
    lineages: dict[Digest, Lineage] = {}
    for number, rows in by_part(sources):
        source = dataset.sources[number]
        lineage = lineage_of(dataset.store, records_of(dataset.store, source.digest), lineages)
        for at, piece in _pieces(source, examples[rows], lineage, told):
            pieces.setdefault(int(rows[at]), []).append(piece)
    return [
        Traced(
            position=first + row,
            source=dataset.sources[number].digest,
            name=told.source(dataset.sources[number].digest),
            epoch=epoch,
            example=example,
            pieces=tuple(pieces.get(row, ())),
        )
        for row, (number, epoch, example) in enumerate(
            zip(sources.tolist(), epochs.tolist(), examples.tolist(), strict=True)
        )
    ]


def _pieces(source: Source, examples: Ints, lineage: Lineage, told: Known) -> list[tuple[int, Piece]]:
    """(example asked for, piece) of ``examples`` of ``source``, in order."""
    spans = spans_of(source, examples)
    files, records, children = (np.empty(len(spans.row), np.int64) for _ in range(3))
    for number, places in by_part(spans.part):
        origins = origins_of(source.part(number))
        rows = spans.row[places]
        files[places], records[places] = lineage.sources(number, origins[rows])
        children[places] = _children(origins, rows)
    known_files: Mapping[int, File] = {f: lineage.file(f, told) for f in set(files.tolist())}
    ends = np.cumsum(spans.size)
    before = ends - spans.size
    before -= before[np.searchsorted(spans.owner, spans.owner, "left")] if len(before) else 0
    columns = (spans.owner, files, records, children, spans.start, spans.size, before)
    return [
        (
            owner,
            Piece(
                file=known_files[file],
                record=record,
                child=child,
                start=start,
                stop=start + size,
                row_start=at,
                row_stop=at + size,
            ),
        )
        for owner, file, record, child, start, size, at in zip(*(c.tolist() for c in columns), strict=True)
    ]


def spans_of(source: Source, examples: Ints) -> Spans:
    """The runs of tokens that ``examples`` of ``source`` are made of; none is empty, but for a record that is alone."""
    if not source.shape.packed:
        part, row = source.rows(examples)
        start = np.zeros(len(row), np.int64)
        size = start.copy()
        for number, places in by_part(part) if source.shape.tokens else ():
            offsets = source.part(number).offsets("input_ids")
            lengths = offsets[row[places] + 1] - offsets[row[places]]
            size[places] = np.minimum(lengths, source.shape.length + 1)
        return Spans(owner=np.arange(len(row)), part=part, row=row, start=start, size=size)
    pieces = source.pieces(examples)
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    for number, places in by_part(pieces.part):
        offsets = source.part(number).offsets("input_ids")
        low, high = pieces.base[places], pieces.base[places] + pieces.size[places]
        if (high > offsets[-1]).any():
            raise CorruptError(
                f"{source.part(number)}: has {int(offsets[-1])} tokens, fewer than its manifest says", kind="corrupt"
            )
        at, row, low, high = cut(low, high, offsets)
        found.append((places[at], row, low - offsets[row], high - low))
    none = (np.zeros(0, np.int64),) * 4
    piece, row, start, size = (np.concatenate(columns) for columns in zip(none, *found, strict=True))
    order = np.argsort(piece, kind="stable")
    piece = piece[order]
    return Spans(
        owner=pieces.owner[piece], part=pieces.part[piece], row=row[order], start=start[order], size=size[order]
    )


def origins_of(part: Part) -> Ints:
    """The ``@record`` of every row of a part, verified. Raises ``CorruptError`` naming source and part."""
    origins = part.values(RECORD)
    try:
        part.stored.touch(RECORD, 0, len(origins))
    except CorruptError as error:
        told = error.diagnostics[0]
        raise CorruptError(f"{part}: {told.message}", kind=told.kind, hint=told.hint) from None
    return origins


def _children(origins: Ints, rows: Ints) -> Ints:
    """How many rows before each of ``rows`` came from the same record."""
    if len(origins) < 2 or (origins[1:] >= origins[:-1]).all():
        return np.asarray(rows - np.searchsorted(origins, origins[rows], "left"))
    return np.array([np.count_nonzero(origins[:row] == origins[row]) for row in rows.tolist()], np.int64)
