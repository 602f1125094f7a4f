"""Part: one stored part as a reader sees it: its values by column, and which of its rows a split or a packing has.

A *run* is a stretch of selected rows that are neighbours in the object, so their tokens are contiguous in its values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dsbuild.errors import BuildError, CorruptError
from dsbuild.store import StoredObject

Ints = np.ndarray
"""int64 arrays."""

TOKENS = "input_ids"
_HINT = "'dsbuild verify' lists all damage"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """``number``: of the parts of the records of the source that messages call ``source``. ``stored``: its object.

    ``selection``: rows of a split, None = all. ``bins``: a packing's rows of each example, None where there is none.
    ``own``: whether labels are a column of the records. ``runs``: (int64[r + 1], int64[r]): the token position, counted
    over the selected rows, of each run's first token, then the total; and the place of that token in the object's
    values. None = one run of all.
    """

    number: int
    source: str
    stored: StoredObject
    selection: StoredObject | None = None
    bins: StoredObject | None = None
    own: bool = False
    runs: tuple[Ints, Ints] | None = None
    columns: dict[str, tuple[np.ndarray, Ints | None, int]] = field(default_factory=dict, repr=False)
    aligned: set[str] = field(default_factory=set, repr=False)

    def __str__(self) -> str:
        return f"source {self.source}, part {self.number}"

    def values(self, column: str) -> np.ndarray:
        """The flat values of a column, not verified yet. Raises ``CorruptError`` where the part has no such column."""
        return self._column(column)[0]

    def offsets(self, column: str) -> Ints:
        """int64[n + 1]: where each row's values of a ragged column begin, ascending from 0 to the number of values.

        Raises ``CorruptError``.
        """
        offsets = self._column(column)[1]
        if offsets is None:
            raise CorruptError(f"{self}: column '{column}' has no offsets", kind="corrupt")
        return offsets

    def source_of(self, column: str) -> str:
        """The stored column that gives ``column``: labels are the tokens where they are no column of their own."""
        return TOKENS if column == "labels" and not self.own else column

    def address(self, column: str) -> int:
        """The memory address of a column's first value; it holds as long as this part does."""
        return self._column(column)[2]

    def check_aligned(self, column: str) -> None:
        """Raise ``BuildError`` unless each row has as many values of ``column`` as it has tokens."""
        if column == TOKENS or column in self.aligned:
            return
        values, tokens = np.diff(self.offsets(column)), np.diff(self.offsets(TOKENS))
        wrong = np.flatnonzero(values != tokens)
        if len(wrong):
            row = int(wrong[0])
            raise BuildError(
                f"{self}, record {row}: column '{column}' has {values[row]} values for {tokens[row]} tokens",
                kind="bad-value",
                hint="a handler must make one value a token",
            )
        self.aligned.add(column)

    @property
    def rows(self) -> Ints | None:
        """int64: the selected rows, ascending; None = all."""
        return None if self.selection is None else self.selection.column("row")[0]

    def _column(self, column: str) -> tuple[np.ndarray, Ints | None, int]:
        found = self.columns.get(column)
        if found is None:
            try:
                values, offsets = self.stored.column(column)
            except KeyError:
                raise CorruptError(f"{self}: has no column '{column}'", kind="corrupt") from None
            except CorruptError as error:
                told = error.diagnostics[0]
                raise CorruptError(f"{self}: {told.message}", kind=told.kind, hint=told.hint) from None
            if offsets is not None and not _sound(offsets, len(values)):
                raise CorruptError(f"{self}: its offsets lead outside of column '{column}'", kind="corrupt", hint=_HINT)
            self.stored.scattered(column)
            address = int(values.__array_interface__["data"][0])
            # of two threads the first one counts: the address holds as long as these very values do
            found = self.columns.setdefault(column, (values, offsets, address))
        return found


def open_part(
    number: int,
    source: str,
    stored: StoredObject,
    selection: StoredObject | None,
    bins: StoredObject | None,
    *,
    own: bool,
    runs: bool,
) -> Part:
    """The part ``number``; ``runs``: whether the selection's runs of tokens are needed. Raises ``CorruptError``."""
    if selection is not None:
        _check_rows(selection, "selection", stored.records)
    if bins is not None:
        _check_rows(bins, "packing", stored.records)
    part = Part(number=number, source=source, stored=stored, selection=selection, bins=bins, own=own)
    if selection is None or not runs:
        return part
    return replace(part, runs=_runs(selection, part.offsets(TOKENS)))


def _check_rows(index: StoredObject, what: str, records: int) -> None:
    """Verify an index of rows. Raises ``CorruptError`` where it names a row that there is not."""
    rows, offsets = index.column("row")
    index.touch_all()
    if len(rows) and (int(rows.max()) >= records or int(rows.min()) < 0):
        wrong = int(rows[(rows < 0) | (rows >= records)][0])
        raise CorruptError(f"{what} names row {wrong} of {records}", kind="corrupt", hint=_HINT)
    if offsets is not None and not (_sound(offsets, len(rows)) and (offsets[1:] > offsets[:-1]).all()):
        raise CorruptError(f"{what} has an example without records", kind="corrupt", hint=_HINT)


def _runs(selection: StoredObject, offsets: Ints) -> tuple[Ints, Ints]:
    """``Part.runs`` of a selection. Raises ``CorruptError`` where it counts other tokens than there are."""
    rows, _ = selection.column("row")
    ends, _ = selection.column("end")
    if not len(rows):
        return np.zeros(1, np.int64), np.zeros(0, np.int64)
    first = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    last = np.append(first[1:], len(rows)) - 1
    starts = np.zeros(len(first) + 1, np.int64)
    starts[1:] = ends[last]
    bases = offsets[rows[first]]
    if not np.array_equal(np.diff(starts), offsets[rows[last] + 1] - bases):
        raise CorruptError("selection counts other tokens than its records have", kind="corrupt", hint=_HINT)
    return starts, bases


def _sound(offsets: Ints, count: int) -> bool:
    return bool(offsets[0] == 0 and offsets[-1] == count and (offsets[1:] >= offsets[:-1]).all())
