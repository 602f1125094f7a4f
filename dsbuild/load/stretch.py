"""Stretch: a run of stream positions, looked up: for each one its source, its pieces and its documents.

Looking up costs numpy calls, whatever the number of positions; so the loader does it for thousands at a time and
reads batches out of the arrays.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dsbuild.errors import BuildError, CorruptError
from dsbuild.load.part import Ints, Part
from dsbuild.load.shape import Shape
from dsbuild.load.source import Source
from dsbuild.load.windows import Windows
from dsbuild.schema import Field
from dsbuild.store.listing import BLOCK
from dsbuild.store.mapping import WILL_NEED, advise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Documents:
    """The documents of rows, and the padding after them: those of row i are ``first[i]`` to ``first[i + 1]`` (int64).

    ``start``, ``size``: int64, along the flattened rows. ``segment``: int32, 1, 2, … in the row, 0 for padding.
    ``turns``: bool[k], whether a document starts at token L, which is a target and no input.
    """

    first: Ints
    start: Ints
    size: Ints
    segment: np.ndarray
    turns: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretch:
    """k rows of ``views``. ``sources``, ``epochs``, ``examples``: int64[k]. ``tokens``: int64[k], at most L + 1.

    The pieces of row i are ``first[i]`` to ``first[i + 1]`` of ``held`` (int64[m], number in ``parts``), ``base`` and
    ``size``. ``whole``: bool[k], whether the row is one piece of L + 1 tokens. ``parts`` keeps what is mapped alive.
    ``records``: (number in ``parts``, row of its object) where a row is one record, int64[k] each.
    """

    shape: Shape
    views: Sequence[Source]
    sources: Ints
    epochs: Ints
    examples: Ints
    parts: tuple[tuple[Source, Part], ...]
    first: Ints
    held: Ints
    base: Ints
    size: Ints
    tokens: Ints
    whole: np.ndarray
    documents: Documents | None
    records: tuple[Ints, Ints] | None
    columns: dict[str, TokenColumn] = field(default_factory=dict, repr=False)
    rows: dict[tuple[str, int], TokenRows] = field(default_factory=dict, repr=False)
    fields: dict[str, Field] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.sources)

    def column(self, name: str) -> TokenColumn:
        """The token column ``name`` of the parts held. Raises ``CorruptError`` where pieces lead outside of it."""
        found = self.columns.get(name)
        if found is None:
            found = self.columns[name] = _column(self, name)
        return found

    def read_for(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The token columns that the arrays ``columns`` of a batch are read from."""
        wanted = set(columns)
        found = {"input_ids"} if wanted & {"input_ids", "labels"} else set()
        if wanted & {"labels", "prefix_mask"}:
            found |= {part.source_of("labels") for _, part in self.parts}
        if self.shape.packed:
            found |= wanted & set(self.shape.further)
        return tuple(sorted(found)) if self.parts else ()

    def unproved(self, names: Iterable[str]) -> bool:
        """Whether any values of token columns are not wholly verified yet."""
        return any(self.column(name).left for name in names)

    def expect(self, start: int, stop: int, names: Iterable[str]) -> None:
        """Tell the kernel that token columns of rows [start, stop) will be read soon; whole blocks are verified."""
        first, last = int(self.first[start]), int(self.first[stop])
        held = self.held[first:last]
        for name in names:
            column = self.column(name)
            width = np.array([v.dtype.itemsize for v in column.values])[held] * math.prod(column.inner)
            low = self.base[first:last] * width // BLOCK * BLOCK
            size = self.base[first:last] * width + self.size[first:last] * width - low
            for address, count in zip((column.addresses[held] + low).tolist(), size.tolist(), strict=True):
                advise(address, -(-count // BLOCK) * BLOCK, WILL_NEED)

    def token_rows(self, name: str, length: int) -> TokenRows:
        """The first ``length`` values of a token column in each row."""
        found = self.rows.get((name, length))
        if found is None:
            found = self.rows[name, length] = _token_rows(self, name, length)
        return found

    def place(self, row: int, token: int) -> str:
        """The source, part and record of a token of a row, for people."""
        piece = int(self.first[row])
        while token >= self.size[piece]:
            token -= int(self.size[piece])
            piece += 1
        part = self.parts[self.held[piece]][1]
        record = np.searchsorted(part.offsets("input_ids"), self.base[piece] + token, "right") - 1
        return f"{part}, record {record}"

    def further(self, name: str) -> Field:
        """What a further column is in batches, whatever sources they have: as wide as in any of ``views``.

        Raises ``BuildError`` where two sources give it other shapes.
        """
        found = self.fields.get(name)
        if found is None:
            found = self.fields[name] = _alike(self.views, name)
        return found

    def prove(self, start: int, stop: int, name: str) -> None:
        """Verify the values of a token column in rows [start, stop). Raises ``CorruptError`` naming source and part."""
        column = self.column(name)
        if not column.left:
            return
        unproved = column.unproved
        first, last = int(self.first[start]), int(self.first[stop])
        held = self.held[first:last]
        for at in (np.flatnonzero(unproved[held]) + first).tolist():
            part = self.parts[self.held[at]][1]
            base = int(self.base[at])
            try:
                part.stored.touch(part.source_of(name), base, base + int(self.size[at]))
            except CorruptError as error:
                row = int(np.searchsorted(part.offsets("input_ids"), base, "right")) - 1
                raise damaged(part, row, error) from None
        for number in np.unique(held).tolist():
            part = self.parts[number][1]
            unproved[number] = not part.stored.verified(part.source_of(name))
        column.left = int(unproved.sum())


@dataclass(slots=True, kw_only=True, eq=False)
class TokenColumn:
    """A column of tokens by the parts of a stretch: ``values``, their ``addresses`` (int64), and whether they are
    ``unproved`` (bool), which is to say not wholly verified yet; ``left`` counts these. ``dtypes``: each that there
    is, once. ``inner``: the shape of the value of one token."""

    values: tuple[np.ndarray, ...]
    inner: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]
    addresses: Ints
    unproved: np.ndarray
    left: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenRows:
    """The first ``length`` values of each row.

    ``windows``: for rows of one piece, by dtype, with the rows that have it (bool[k]). ``missing``: the rows that no
    window fills, ascending; the pieces of number i are ``first[i]`` to ``first[i + 1]`` of ``pieces``: which of
    ``values``, base, size, as plain numbers, since loops over them are quicker.
    """

    length: int
    inner: tuple[int, ...]
    dtype: np.dtype[Any]
    windows: tuple[tuple[Windows, np.ndarray], ...]
    values: tuple[np.ndarray, ...]
    missing: list[int]
    first: list[int]
    pieces: list[tuple[int, int, int]]

    def read(self, start: int, stop: int) -> np.ndarray:
        """A new array [stop - start, length, *inner] with rows [start, stop), 0 past their end; proved already."""
        out, length = self._whole(start, stop), self.length
        if self.inner:
            out = out.reshape(stop - start, length, *self.inner)
        low = bisect_left(self.missing, start)
        for number in range(low, bisect_left(self.missing, stop, low)):
            row, at = out[self.missing[number] - start], 0
            for held, base, size in self.pieces[self.first[number] : self.first[number + 1]]:
                end = min(at + size, length)
                row[at:end] = self.values[held][base : base + end - at]
                at = end
            if at < length:
                row[at:] = 0
        return out

    def _whole(self, start: int, stop: int) -> np.ndarray:
        """A new array with rows [start, stop), flat behind the first axis; those that are ``missing`` hold anything."""
        if len(self.windows) == 1:
            return self.windows[0][0].rows(start, stop)
        some = [(windows.rows(start, stop), there[start:stop]) for windows, there in self.windows]
        out = np.empty(some[0][0].shape, self.dtype)
        for found, there in some:
            out[there] = found[there]
        return out


def _token_rows(stretch: Stretch, name: str, length: int) -> TokenRows:
    column = stretch.column(name)
    width = math.prod(column.inner)
    firsts = np.minimum(stretch.first[:-1], max(len(stretch.held) - 1, 0))  # a row without pieces is not whole
    held = stretch.held[firsts]
    windows = []
    for dtype in column.dtypes:
        there = stretch.whole
        if len(column.dtypes) > 1:
            there = there & np.array([values.dtype == dtype for values in column.values])[held]
        addresses = column.addresses[held] + stretch.base[firsts] * (dtype.itemsize * width)
        windows.append((Windows(addresses, there, length * width, dtype), there))
    missing = sorted(set(windows[0][0].missing).intersection(*(w.missing for w, _ in windows[1:])))
    rows = np.array(missing, np.int64)
    counts = stretch.first[rows + 1] - stretch.first[rows]
    borders = np.concatenate([[0], np.cumsum(counts)])
    chosen = np.arange(int(borders[-1])) + np.repeat(stretch.first[rows] - borders[:-1], counts)
    return TokenRows(
        length=length,
        inner=column.inner,
        dtype=np.result_type(*column.dtypes),
        windows=tuple(windows),
        values=column.values,
        missing=missing,
        first=borders.tolist(),
        pieces=list(zip(*(a[chosen].tolist() for a in (stretch.held, stretch.base, stretch.size)), strict=True)),
    )


def _column(stretch: Stretch, name: str) -> TokenColumn:
    for _, part in stretch.parts:
        part.check_aligned(part.source_of(name))
    values = tuple(part.values(part.source_of(name)) for _, part in stretch.parts)
    sizes = np.array([len(v) for v in values], np.int64)
    # addresses are made of these numbers: what a damaged store says must not lead outside of the map
    outside = (stretch.base < 0) | (stretch.size < 0) | (stretch.base > sizes[stretch.held] - stretch.size)
    if outside.any():
        part = stretch.parts[stretch.held[int(np.argmax(outside))]][1]
        raise CorruptError(
            f"{part}: its offsets lead outside of column '{name}'",
            kind="corrupt",
            hint="'dsbuild verify' lists all damage",
        )
    return TokenColumn(
        values=values,
        inner=values[0].shape[1:],
        dtypes=tuple(dict.fromkeys(v.dtype for v in values)),
        addresses=np.array([part.address(part.source_of(name)) for _, part in stretch.parts], np.int64),
        unproved=(unproved := np.array([not p.stored.verified(p.source_of(name)) for _, p in stretch.parts], bool)),
        left=int(unproved.sum()),
    )


def _alike(views: Sequence[Source], name: str) -> Field:
    found: dict[Field, Source] = {}
    for view in views:
        found.setdefault(view.records.schema[name], view)
    first = next(iter(found))
    for other, view in found.items():
        if other.shape != first.shape:
            raise BuildError(
                f"column '{name}' has shape {list(first.shape)} in source {found[first]} and "
                f"{list(other.shape)} in source {view}",
                kind="conflict",
                hint="handlers must make them alike",
            )
    return replace(first, dtype=np.result_type(*(np.dtype(f.dtype) for f in found)).name)


def damaged(part: Part, row: int, error: CorruptError) -> CorruptError:
    """``error`` with the source, part and record that it was met at."""
    told = error.diagnostics[0]
    return CorruptError(f"{part}, record {row}: {told.message}", kind=told.kind, hint=told.hint)
