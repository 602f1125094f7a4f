"""Find: every place of the stream that has tokens of a record; the inverse of ``trace``.

The arithmetic of a batch run backwards: record, part, row, split, window or bin, example, and for each epoch the
inverse of its order and of the mixture. So the cost does not depend on the length of the stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsbuild.load.absence import Absence
from dsbuild.load.part import Ints, Part
from dsbuild.load.provenance import known
from dsbuild.load.shape import RangeError
from dsbuild.load.sought import called, sought
from dsbuild.load.source import Source
from dsbuild.load.steps import schedule_of
from dsbuild.load.trace import origins_of
from dsbuild.order.pack import concat_examples
from dsbuild.order.partition import Schedule
from dsbuild.store.names import Names

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

LIMIT = 1000
"""Places that are listed where the caller names no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A run of tokens of a record in the stream: in the example at ``position``, ``example`` of its source in
    ``epoch``. With a batch size also its ``step``, and ``row`` in the whole batch; None in a dropped partial batch.

    Tokens [``start``, ``stop``) of row ``child`` of the record are tokens [``row_start``, ``row_stop``) of the example.
    """

    position: int
    epoch: int
    example: int
    step: int | None
    row: int | None
    child: int
    start: int
    stop: int
    row_start: int
    row_stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Tokens [``start``, ``stop``) of row ``child`` of the record, from token ``row_start`` of ``example`` on."""

    example: int
    row_start: int
    child: int
    start: int
    stop: int


def find(
    dataset: Dataset,
    source: str,
    record: int,
    file: str | int | None = None,
    *,
    size: int | Schedule | None = None,
    limit: int = LIMIT,
    names: Names | None = None,
) -> list[Occurrence]:
    """Every place of the stream that has tokens of record number ``record`` of ``file``. See ``Dataset.find``.

    ``names``: what people call sources and files; by default what the store keeps of the dataset's hash.
    """
    if limit < 1:
        raise RangeError(f"limit {limit}: must be at least 1", kind="out-of-range")
    schedule = None if size is None else schedule_of(size)
    told = known(dataset.store, dataset.digest, names)
    number, lineage, chosen = sought(dataset, source, file, told)
    view = dataset.sources[number]
    absence = Absence(
        dataset=dataset,
        view=view,
        name=called(view, told),
        told=told,
        lineage=lineage,
        file=chosen,
        record=record,
    )
    place = lineage.place(chosen.ordinal, record)
    if place is None:
        raise absence.unknown()
    part, origin = view.part(place[0]), place[1]
    origins = origins_of(part)
    rows = np.flatnonzero(origins == origin)
    if not len(rows):
        raise absence.without_rows(part, origins, origin)
    kept = rows if part.rows is None else rows[np.isin(rows, part.rows, assume_unique=True)]
    if not len(kept):
        raise absence.of_other_split(part, rows)
    runs = [run for row in kept.tolist() for run in _runs(view, part, row, int(np.searchsorted(rows, row)))]
    if not runs:
        raise absence.in_no_example(part, kept)
    found = list(_occurrences(dataset, number, runs, schedule, limit))
    if not found:
        taken = int(dataset.mixture.counts(len(dataset))[number])
        raise absence.not_reached([run.example for run in runs], taken)
    return found


def _runs(view: Source, part: Part, row: int, child: int) -> Iterator[_Run]:
    """The runs of tokens of ``row`` of a part, in all examples of an epoch of ``view`` that have any."""
    size = 0
    if view.shape.tokens:
        offsets = part.offsets("input_ids")
        size = int(offsets[row + 1] - offsets[row])
    place = int(np.flatnonzero(view.parts == part.number)[0])
    if view.shape.pack == "concat":
        yield from _windows(view, part, row, size, place, child)
        return
    size = min(size, view.shape.length + 1)
    number, at = row, 0
    if part.bins is not None:
        packed = _bin(part, row, view.shape.length + 1)
        if packed is None:
            return
        number, at = packed
    elif part.rows is not None:
        number = int(np.searchsorted(part.rows, row))
    along = int(view.starts[place]) + number
    yield _Run(example=_dealt(view, along, None), row_start=at, child=child, start=0, stop=size)


def _windows(view: Source, part: Part, row: int, size: int, place: int, child: int) -> Iterator[_Run]:
    """The windows of concatenated tokens that have any of ``row``: one that begins at a border is met twice."""
    if not size:
        return
    if part.selection is None:
        before = int(part.offsets("input_ids")[row])
    else:
        ends, _ = part.selection.column("end")
        before = int(ends[np.searchsorted(part.selection.column("row")[0], row)]) - size
    start = int(view.starts[place]) + before
    reader = int(np.searchsorted(view.readers, start, "right")) - 1
    low, high = int(view.readers[reader]), int(view.readers[reader + 1])
    length = view.shape.length
    first, last = concat_examples(high - low, length, start - low, start - low + size)
    for index in range(first, last):
        begin = low + index * length
        a, b = max(start, begin), min(start + size, begin + length + 1)
        example = _dealt(view, index, reader)
        yield _Run(example=example, row_start=a - begin, child=child, start=a - start, stop=b - start)


def _dealt(view: Source, at: int, reader: int | None) -> int:
    """The example that is number ``at`` of ``reader``; None = ``at`` counts along all readers."""
    if len(view.readers) == 2:
        return at
    if reader is None:
        reader = int(np.searchsorted(view.readers, at, "right")) - 1
        at -= int(view.readers[reader])
    return int(view.deal.inverse(np.array([reader]), np.array([at]))[0])


def _bin(part: Part, row: int, capacity: int) -> tuple[int, int] | None:
    """(bin of the part that has ``row``, tokens before it there); None where no bin has it."""
    assert part.bins is not None
    rows, borders = part.bins.column("row")
    assert borders is not None
    found = np.flatnonzero(rows == row)
    if not len(found):
        return None
    at = int(found[0])
    number = int(np.searchsorted(borders, at, "right")) - 1
    earlier = rows[int(borders[number]) : at]
    if not len(earlier):
        return number, 0
    offsets = part.offsets("input_ids")
    return number, int(np.minimum(offsets[earlier + 1] - offsets[earlier], capacity).sum())


def _occurrences(
    dataset: Dataset, number: int, runs: Sequence[_Run], schedule: Schedule | None, limit: int
) -> Iterator[Occurrence]:
    """The runs in every epoch, at most ``limit``, by position and then by place in the example."""
    by_example: dict[int, list[_Run]] = {}
    for run in sorted(runs, key=lambda r: r.row_start):
        by_example.setdefault(run.example, []).append(run)
    examples: Ints = np.array(list(by_example), np.int64)
    length = dataset.sources[number].length
    taken = int(dataset.mixture.counts(len(dataset))[number])
    borders = None if schedule is None else [schedule.first(step) for step in schedule.starts]
    for epoch in range(-(-taken // length)):
        ordinals = epoch * length + dataset.order(number, epoch).inverse(examples)
        for at in np.argsort(ordinals).tolist():
            if ordinals[at] >= taken:
                break
            position = dataset.mixture.position(number, int(ordinals[at]))
            step, row = None, None
            if schedule is not None and borders is not None:
                step, row = _step(schedule, borders, position, len(dataset))
            for run in by_example[int(examples[at])]:
                if not limit:
                    return
                limit -= 1
                yield Occurrence(
                    position=position,
                    epoch=epoch,
                    example=run.example,
                    step=step,
                    row=row,
                    child=run.child,
                    start=run.start,
                    stop=run.stop,
                    row_start=run.row_start,
                    row_stop=run.row_start + run.stop - run.start,
                )


def _step(schedule: Schedule, borders: list[int], position: int, length: int) -> tuple[int | None, int | None]:
    """(step, row) of a position; ``borders``: the first positions of the schedule's stretches of one size."""
    at = bisect_right(borders, position) - 1
    steps, row = divmod(position - borders[at], schedule.sizes[at])
    step = schedule.starts[at] + steps
    return (step, row) if step < schedule.steps(length) else (None, None)
