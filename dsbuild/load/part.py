"""Part: one stored part as a reader sees it: runs of contiguous tokens, rows, and where documents end.

A *run* is a stretch of selected rows that are neighbours in the object, so its tokens are contiguous in the mapped
array. A part without a selection is one run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dsbuild.errors import CorruptError
from dsbuild.store import StoredObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``rows``: int64 selected rows, None = all. Token positions are counted over the selected rows from 0.

    ``run_starts`` int64[r+1]: position of each run's first token, then the total. ``run_bases`` int64[r]: where that
    token is in the object's flat values. ``ends`` int64[n]: position after each selected row.
    """

    stored: StoredObject
    rows: np.ndarray | None
    run_starts: np.ndarray
    run_bases: np.ndarray
    ends: np.ndarray

    def copy(self, column: str, start: int, stop: int, out: np.ndarray) -> None:
        """Copy tokens [start, stop) of ``column`` into ``out`` (cast on assignment), verified before use."""
        values, _ = self.stored.column(column)
        run = int(np.searchsorted(self.run_starts, start, "right")) - 1
        done = 0
        while start < stop:
            upto = min(stop, int(self.run_starts[run + 1]))
            base = int(self.run_bases[run]) + start - int(self.run_starts[run])
            self.stored.touch(column, base, base + upto - start)
            out[done : done + upto - start] = values[base : base + upto - start]
            done += upto - start
            start, run = upto, run + 1

    def row(self, i: int) -> int:
        """The object's row number of selected row ``i``."""
        return i if self.rows is None else int(self.rows[i])


def open_part(stored: StoredObject, selection: StoredObject | None, column: str | None) -> Part:
    """A part with the rows of ``selection`` (None = all), as runs of the ragged ``column`` (None = rows only)."""
    rows: np.ndarray | None = None
    if selection is not None:
        rows, _ = selection.column("row")
        selection.touch("row", 0, len(rows))
        if len(rows) and (int(rows[-1]) >= stored.records or int(rows[0]) < 0):
            raise CorruptError(f"selection names row {int(rows[-1])} of {stored.records}", kind="corrupt")
    if column is None:
        empty = np.zeros(1, np.int64)
        return Part(stored=stored, rows=rows, run_starts=empty, run_bases=empty[:0], ends=empty[:0])
    _, offsets = stored.column(column)
    if offsets is None:
        raise CorruptError(f"column '{column}' has no offsets", kind="corrupt")
    if rows is None:
        starts = np.array([0, int(offsets[-1])], np.int64)
        return Part(stored=stored, rows=None, run_starts=starts, run_bases=np.zeros(1, np.int64), ends=offsets[1:])
    ends = np.cumsum(offsets[rows + 1] - offsets[rows])
    first = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    total = int(ends[-1]) if len(ends) else 0
    positions = np.concatenate([[0], ends])[first] if len(rows) else np.zeros(0, np.int64)
    return Part(
        stored=stored,
        rows=rows,
        run_starts=np.concatenate([positions, [total]]).astype(np.int64),
        run_bases=offsets[rows[first]].astype(np.int64),
        ends=ends,
    )
