"""Look-up: which pieces and documents the rows of a stretch are made of, by arithmetic on integer arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dsbuild.errors import BuildError
from dsbuild.load.part import Ints, Part
from dsbuild.load.pieces import Pieces, by_part, stable_order
from dsbuild.load.shape import Shape
from dsbuild.load.source import Source
from dsbuild.load.stretch import Documents, Stretch


def look_up(
    shape: Shape,
    views: Sequence[Source],
    sources: Ints,
    epochs: Ints,
    examples: Ints,
    *,
    documents: bool,
) -> Stretch:
    """The stretch of rows that are ``examples[i]`` of ``sources[i]`` (numbers in ``views``; int64[k]).

    ``documents``: whether documents are looked up too. Raises ``BuildError`` for a record that is longer than examples
    may be, and as opening parts does.
    """
    owners: list[Ints] = []
    columns: list[tuple[Ints, Ints, Ints]] = []
    parts = _Parts()
    records = None if shape.packed else (np.empty(len(sources), np.int64), np.empty(len(sources), np.int64))
    for number, rows in by_part(sources):
        view = views[number]
        rows = rows[stable_order(examples[rows])]  # searching in order is several times as fast
        if records is not None:
            numbers, records[1][rows] = view.rows(examples[rows])
            records[0][rows] = parts.hold(view, numbers)
        if shape.tokens:
            found = view.pieces(examples[rows])
            owners.append(rows[found.owner])
            columns.append((parts.hold(view, found.part), found.base, found.size))
    none = np.zeros(0, np.int64)
    owner = np.concatenate(owners) if owners else none
    part, base, size = (np.concatenate(a) for a in zip(*columns, strict=True)) if columns else (none, none, none)
    order = stable_order(owner)
    owner, part, base, size = owner[order], part[order], base[order], size[order]
    counts = np.bincount(owner, minlength=len(sources))
    first = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    ends = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=ends[1:])
    tokens = np.diff(ends[first])
    pieces = Pieces(owner=owner, part=part, base=base, size=size)
    if shape.pack == "none" and shape.overlong == "error":
        _check_lengths(shape, parts.held, pieces)
    return Stretch(
        shape=shape,
        views=views,
        sources=sources,
        epochs=epochs,
        examples=examples,
        parts=tuple(parts.held),
        first=first,
        held=part,
        base=base,
        size=size,
        tokens=tokens,
        whole=(counts == 1) & (tokens == shape.length + 1),
        documents=_documents(shape, parts.held, pieces, first, ends, tokens) if documents else None,
        records=records,
    )


@dataclass(slots=True)
class _Parts:
    """The parts of a stretch, each once."""

    held: list[tuple[Source, Part]] = field(default_factory=list)
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    def hold(self, view: Source, part: Ints) -> Ints:
        """The numbers that ``part`` of ``view`` have here."""
        found = np.empty(len(part), np.int64)
        for number, places in by_part(part):
            at = self.numbers.setdefault((id(view), number), len(self.held))
            if at == len(self.held):
                self.held.append((view, view.part(number)))
            found[places] = at
        return found


def _documents(
    shape: Shape, parts: Sequence[tuple[Source, Part]], pieces: Pieces, first: Ints, ends: Ints, tokens: Ints
) -> Documents:
    """Every piece starts a document (or the rest of one), and so does every record inside a piece."""
    inside: list[tuple[Ints, Ints]] = []
    for number, places in by_part(pieces.part):
        offsets = parts[number][1].offsets("input_ids")
        places = places[stable_order(pieces.base[places])]
        base = pieces.base[places]
        low = np.searchsorted(offsets, base, "right")
        high = np.searchsorted(offsets, base + pieces.size[places], "left")
        counts = np.maximum(high - low, 0)
        owners = np.repeat(np.arange(len(places)), counts)
        at = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts - low, counts)
        inside.append((places[owners], offsets[at] - base[owners]))
    # the place of each piece's first token, counted over all rows, tells its place in its row
    before = ends[:-1] - ends[first[pieces.owner]]
    piece = np.concatenate([np.arange(len(pieces)), *(p for p, _ in inside)])
    start = before[piece] + np.concatenate([np.zeros(len(pieces), np.int64), *(s for _, s in inside)])
    row = pieces.owner[piece]
    inputs = np.minimum(tokens, shape.length)
    turns = np.zeros(len(tokens), bool)
    turns[row[(start == shape.length) & (tokens[row] > shape.length)]] = True
    kept = start < inputs[row]
    short = np.flatnonzero(inputs < shape.length)
    # a place in all rows, and behind it whether padding starts there; two records may start at one: one is empty
    keys = np.concatenate(
        [(row[kept] * (shape.length + 1) + start[kept]) * 2, (short * (shape.length + 1) + inputs[short]) * 2 + 1]
    )
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) != 0]
    rows, starts = np.divmod(keys >> 1, shape.length + 1)
    borders = np.searchsorted(rows, np.arange(len(tokens) + 1))
    segment = (np.arange(len(rows)) - borders[rows] + 1).astype(np.int32)
    segment[(keys & 1) == 1] = 0
    flat = rows * shape.length + starts
    size = np.diff(flat, append=len(tokens) * shape.length)  # every row has something at its start
    return Documents(first=borders, start=flat, size=size, segment=segment, turns=turns)


def _check_lengths(shape: Shape, parts: Sequence[tuple[Source, Part]], pieces: Pieces) -> None:
    """Raise for the longest record that does not fit: pieces are cut, so the whole record is looked at again."""
    full = np.flatnonzero(pieces.size > shape.length)
    for number, which in by_part(pieces.part[full]):
        places = full[which]
        part = parts[number][1]
        offsets = part.offsets("input_ids")
        row = np.searchsorted(offsets, pieces.base[places], "right") - 1
        lengths = offsets[row + 1] - pieces.base[places]
        if (lengths > shape.length + 1).any():
            at = int(np.argmax(lengths))
            raise BuildError(
                f"{part}, record {int(row[at])}: {int(lengths[at])} tokens, above length + 1 = {shape.length + 1}",
                kind="record-too-long",
                hint='raise [examples] length, or set overlong = "cut" or "drop"',
            )
