"""Gather: rows of a stretch become the arrays of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dsbuild.errors import BuildError, CorruptError
from dsbuild.load.part import Ints
from dsbuild.load.pieces import by_part
from dsbuild.load.shape import IGNORED
from dsbuild.load.stretch import Stretch, damaged
from dsbuild.schema import Field

Batch = dict[str, np.ndarray]


def gather(stretch: Stretch, start: int, stop: int, dtype: np.dtype[Any], columns: Sequence[str]) -> Batch:
    """The arrays ``columns`` of rows [start, stop): [stop - start, L], but ``cu_seqlens`` and further columns.

    ``input_ids`` and further token columns hold the first L tokens of a row's L + 1, ``labels`` the last L, so no
    target is lost at a border. Raises ``CorruptError`` for damage and ``BuildError`` for values that do not fit.
    """
    shape = stretch.shape
    if start == stop:
        return {name: _none(stretch, dtype, name) for name in columns}
    found: Batch = {}
    tokens: np.ndarray | None = None
    flat = _flat(stretch, start, stop) if stretch.documents is not None else None
    own = "labels" not in columns or any(part.source_of("labels") == "labels" for _, part in stretch.parts)
    if "input_ids" in columns or not own:
        tokens = _window(stretch, start, stop, "input_ids", shape.length + (not own))
    for name in columns:
        if name == "input_ids":
            assert tokens is not None
            alone = own and tokens.dtype == dtype  # a window without another use need not be copied
            ids = tokens if alone else _cast(stretch, start, tokens[:, : shape.length], dtype, name)
            found[name] = _padded(stretch, start, stop, ids)
        elif name == "labels":
            last = tokens if not own else _window(stretch, start, stop, "labels", shape.length + 1)
            assert last is not None
            found[name] = _labels(stretch, start, stop, last[:, 1:], dtype, flat)
        elif name in _MASKS:
            assert flat is not None
            found[name] = _MASKS[name](flat).reshape(-1 if name == "cu_seqlens" else (stop - start, shape.length))
        elif name == "prefix_mask":
            assert flat is not None
            found[name] = _prefixes(_window(stretch, start, stop, "labels", shape.length), flat)
        elif shape.packed:
            wide = _window(stretch, start, stop, name, shape.length)
            found[name] = wide.astype(stretch.further(name).dtype, copy=False)
        else:
            found[name] = _further(stretch, start, stop, name)
    return found


def _none(stretch: Stretch, dtype: np.dtype[Any], name: str) -> np.ndarray:
    """The array ``name`` of no rows."""
    shape = stretch.shape
    if name == "cu_seqlens":
        return np.zeros(1, np.int32)
    if name in shape.further:
        field = stretch.further(name)
        return np.empty((0, *_inner(stretch, field)), field.dtype)
    made = {"input_ids": dtype, "labels": _label_dtype(dtype), "prefix_mask": np.dtype(np.uint8)}
    return np.empty((0, shape.length), made.get(name, np.dtype(np.int32)))


def _inner(stretch: Stretch, field: Field) -> tuple[int, ...]:
    """The shape that a further column has in one example."""
    shape = stretch.shape
    lengths = [n or 0 for n in field.shape]
    if field.ragged:
        lengths[0] = shape.length if shape.packed else shape.shapes.get(field.name, 0)
    return tuple(lengths)


def _label_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)


def _window(stretch: Stretch, start: int, stop: int, name: str, length: int) -> np.ndarray:
    """The first ``length`` tokens of rows [start, stop): [rows, length] of the dtype that is stored, 0 past the end.

    A further column has its values' shape behind these axes.
    """
    stretch.prove(start, stop, name)
    return stretch.token_rows(name, length).read(start, stop)


def _cast(stretch: Stretch, start: int, values: np.ndarray, dtype: np.dtype[Any], name: str) -> np.ndarray:
    """``values`` of rows from ``start`` on as ``dtype``. Raises ``BuildError`` for one that does not fit."""
    if values.dtype == dtype:
        return np.array(values, order="C")  # a copy even of one row, which would be a view of what labels come from
    if not np.can_cast(values.dtype, dtype) and values.size:
        low, high, info = int(values.min()), int(values.max()), np.iinfo(dtype)
        if low < info.min or high > info.max:
            wrong = low if low < info.min else high
            row, token = (int(n) for n in np.argwhere(values == wrong)[0])
            place = stretch.place(start + row, token + (name == "labels"))
            raise BuildError(
                f"{place}: column '{name}' has {wrong}, which does not fit {dtype}",
                kind="bad-value",
                hint="ask for a wider dtype",
            )
    return values.astype(dtype)


def _padded(stretch: Stretch, start: int, stop: int, ids: np.ndarray) -> np.ndarray:
    """``ids`` with the pad token past each row's end."""
    tokens = stretch.tokens[start:stop]
    if stretch.shape.pad:
        for row in np.flatnonzero(tokens < stretch.shape.length).tolist():
            ids[row, int(tokens[row]) :] = stretch.shape.pad
    return ids


@dataclass(frozen=True, slots=True, eq=False)
class _Flat:
    """Documents and paddings along flattened rows: where each starts, how long it is (int64), its segment (int32)."""

    starts: Ints
    lengths: Ints
    segments: np.ndarray

    @property
    def end(self) -> int:
        return int(self.starts[-1] + self.lengths[-1]) if len(self.starts) else 0


def _flat(stretch: Stretch, start: int, stop: int) -> _Flat:
    documents = stretch.documents
    assert documents is not None
    chosen = slice(int(documents.first[start]), int(documents.first[stop]))
    starts = documents.start[chosen] - start * stretch.shape.length
    return _Flat(starts, documents.size[chosen], documents.segment[chosen])


def _labels(
    stretch: Stretch, start: int, stop: int, last: np.ndarray, dtype: np.dtype[Any], flat: _Flat | None
) -> np.ndarray:
    """int32, or int64 where ids are: the targets, -100 past a row's last one and at another document's first token."""
    length = stretch.shape.length
    labels = _cast(stretch, start, last, _label_dtype(dtype), "labels")
    tokens = stretch.tokens[start:stop]
    for row in np.flatnonzero(tokens <= length).tolist():
        labels[row, max(int(tokens[row]) - 1, 0) :] = IGNORED
    if flat is not None and stretch.documents is not None:
        labels.reshape(-1)[flat.starts[flat.starts % length > 0] - 1] = IGNORED
        labels[stretch.documents.turns[start:stop], -1] = IGNORED
    return labels


def _segments(flat: _Flat) -> np.ndarray:
    return np.repeat(flat.segments, flat.lengths)


def _positions(flat: _Flat) -> np.ndarray:
    found = np.repeat(flat.starts.astype(np.int32), flat.lengths)
    np.subtract(_counting(flat.end), found, out=found)
    for at in np.flatnonzero(flat.segments == 0).tolist():
        found[flat.starts[at] : flat.starts[at] + flat.lengths[at]] = 0
    return found


@lru_cache(maxsize=4)
def _counting(end: int) -> np.ndarray:
    """0, 1, … ``end`` - 1 as int32, read-only."""
    found = np.arange(end, dtype=np.int32)
    found.flags.writeable = False
    return found


def _borders(flat: _Flat) -> np.ndarray:
    """``cu_seqlens``: int32, where each document (and each row's padding) starts in the flattened rows, and the end."""
    return np.append(flat.starts, flat.end).astype(np.int32)


_MASKS = {"segment_ids": _segments, "position_ids": _positions, "cu_seqlens": _borders}


def _prefixes(labels: np.ndarray, flat: _Flat) -> np.ndarray:
    """``prefix_mask``: uint8, 1 on the tokens of a document before its first token that has loss."""
    tokens, ends = labels.reshape(-1), flat.starts + flat.lengths
    # the first place with loss at or after each document's start; no later than its end
    loss = np.append(np.flatnonzero(tokens != IGNORED), len(tokens))
    first = np.minimum(loss[np.searchsorted(loss, flat.starts)], ends)
    first[flat.segments == 0] = flat.starts[flat.segments == 0]
    marks = np.zeros(len(tokens) + 1, np.int8)
    np.add.at(marks, flat.starts, 1)
    np.add.at(marks, first, -1)
    return np.cumsum(marks[:-1], dtype=np.int8).astype(np.uint8).reshape(labels.shape)


def _further(stretch: Stretch, start: int, stop: int, column: str) -> np.ndarray:
    """A column of examples that are one record each: [rows, *shape], ragged ones padded with 0 to their length."""
    assert stretch.records is not None
    held, records = (a[start:stop] for a in stretch.records)
    field = stretch.further(column)
    length = stretch.shape.shapes.get(column, 0)
    out = np.zeros((stop - start, *_inner(stretch, field)), field.dtype)
    for number, places in by_part(held):
        part = stretch.parts[number][1]
        for place in places.tolist():
            row = int(records[place])
            low, high = (row, row + 1) if not field.ragged else part.offsets(column)[row : row + 2].tolist()
            high = min(high, low + length) if field.ragged else high
            try:
                part.stored.touch(column, low, high)
            except CorruptError as error:
                raise damaged(part, row, error) from None
            if field.ragged:
                out[place, : high - low] = part.values(column)[low:high]
            else:
                out[place] = part.values(column)[row]
    return out
