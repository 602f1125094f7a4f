"""Gather: examples become rows of preallocated arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsbuild.errors import BuildError
from dsbuild.load.source import Source, Span

IGNORED = -100
"""The label of a position without loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What examples look like: ``length`` L, packing, document mask, ``pad`` id, what to do with long records."""

    length: int
    packed: bool
    documents: bool
    pad: int
    overlong: str

    def columns(self) -> tuple[str, ...]:
        """The arrays of a batch, in order."""
        found = ("input_ids", "labels")
        return (*found, "segment_ids", "position_ids") if self.documents else found


def allocate(shape: Shape, rows: int, dtype: np.dtype[Any], columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays [rows, L]: ``input_ids`` of ``dtype``, the others int32."""
    return {n: np.empty((rows, shape.length), dtype if n == "input_ids" else np.int32) for n in columns}


def fill(shape: Shape, source: Source, index: int, out: dict[str, np.ndarray], row: int) -> None:
    """Write example ``index`` of ``source`` into row ``row`` of the arrays in ``out``.

    A window holds L+1 tokens: ``input_ids`` are the first L, ``labels`` the last L, so no target is lost at a border.
    """
    spans = [s if shape.packed else _record_span(shape, source, s) for s in source.spans(index)]
    tokens = np.empty(shape.length + 1, np.int64)
    length = _copy(source, spans, "input_ids", tokens)
    inputs = min(length, shape.length)
    if "input_ids" in out:
        out["input_ids"][row, :inputs] = tokens[:inputs]
        out["input_ids"][row, inputs:] = shape.pad
    starts = _document_starts(source, spans, length) if shape.documents else None
    if "labels" in out:
        targets = tokens
        if "labels" in source.records.schema:
            targets = np.empty(shape.length + 1, np.int64)
            _copy(source, spans, "labels", targets)
        out["labels"][row, : max(length - 1, 0)] = targets[1:length]
        out["labels"][row, max(length - 1, 0) :] = IGNORED
        if starts is not None:  # the first token of another document is no target of this one
            out["labels"][row, starts[1:] - 1] = IGNORED
    if starts is not None:
        _write_documents(starts[starts < inputs], inputs, out, row)


def _copy(source: Source, spans: Sequence[Span], column: str, out: np.ndarray) -> int:
    done = 0
    for span in spans:
        size = span.stop - span.start
        source.part(span.part).copy(column, span.start, span.stop, out[done : done + size])
        done += size
    return done


def _record_span(shape: Shape, source: Source, span: Span) -> Span:
    """The tokens of the one record that ``span`` (in records) names, cut to L+1 if so told."""
    ends = source.part(span.part).ends
    start, stop = (int(ends[span.start - 1]) if span.start else 0), int(ends[span.start])
    if stop - start > shape.length + 1:
        if shape.overlong != "cut":
            raise BuildError(
                f"part {span.part}, record {span.start}: {stop - start} tokens, above length + 1 = {shape.length + 1}",
                kind="record-too-long",
                hint='raise [examples] length, or set overlong = "cut"',
            )
        stop = start + shape.length + 1
    return Span(part=span.part, start=start, stop=stop)


def _document_starts(source: Source, spans: Sequence[Span], length: int) -> np.ndarray:
    """Positions in the window where a document starts; 0 is always one (the rest of a document, or its start)."""
    found = [np.zeros(1, np.int64)]
    done = 0
    for span in spans:
        ends = source.part(span.part).ends
        # the next document starts where one ends; and a part always starts with one
        low, high = np.searchsorted(ends, [span.start, span.stop], "left")
        found.append(ends[low:high] - span.start + done)
        if span.start == 0:
            found.append(np.array([done], np.int64))
        done += span.stop - span.start
    starts = np.unique(np.concatenate(found))
    return starts[starts < max(length, 1)]


def _write_documents(starts: np.ndarray, inputs: int, out: dict[str, np.ndarray], row: int) -> None:
    """``segment_ids``: 1, 2, … a document, 0 = padding. ``position_ids`` restart at each document."""
    lengths = np.diff(starts, append=inputs)
    if "segment_ids" in out:
        out["segment_ids"][row, :inputs] = np.repeat(np.arange(1, len(starts) + 1), lengths)
        out["segment_ids"][row, inputs:] = 0
    if "position_ids" in out:
        out["position_ids"][row, :inputs] = np.arange(inputs) - np.repeat(starts, lengths)
        out["position_ids"][row, inputs:] = 0
