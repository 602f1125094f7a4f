"""Packing: the parts of a ``pack`` node, each an index of the bins that the records of one part fill.

An index of its own for each part, so that a changed file costs the packing of its own parts. Tokens are not read: a
record is its length here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsbuild.build.plan import NodePlan, World, contents_of, manifest_of
from dsbuild.build.provenance import places
from dsbuild.build.selecting import keep
from dsbuild.build.tasks import PackTask, PartDone
from dsbuild.digest import Digest, Domain, of_value
from dsbuild.errors import BuildError, CorruptError, Where
from dsbuild.order import fit
from dsbuild.records import Column, Records
from dsbuild.schema import RECORD, SEGMENT_BITS, Field, Schema
from dsbuild.store import Realisation, Store, StoredObject

Ints = NDArray[np.int64]

_SCHEMA = Schema.of(Field(name="row", dtype="int64", shape=(None,)))


def plan_pack(world: World, digest: Digest) -> NodePlan:
    """The plan of a ``pack`` node over the parts of its records, or of a split of them."""
    derivation = world.derivation(digest)
    (at,) = derivation.references()
    selections: list[Digest | None] | None = None
    if world.derivation(at).kind == "split":
        selections = list(contents_of(manifest_of(world, at)))
        (at,) = world.derivation(at).references()
    contents = contents_of(manifest_of(world, at))
    if selections is not None and len(selections) != len(contents):
        raise CorruptError(
            f"{world.graph.label(digest)}: a split of {len(selections)} parts of {len(contents)}", kind="corrupt"
        )
    length, overlong = int(derivation.arguments["length"]), str(derivation.arguments.get("overlong", "error"))
    origins = places(world, at) if overlong == "error" else [()] * len(contents)
    label = world.graph.label(digest)
    plan = NodePlan(digest=digest, schema=Schema(fields=()))
    for number, (content, selection) in enumerate(zip(contents, selections or [None] * len(contents), strict=True)):
        value = {"pack": derivation.builder, "length": length, "overlong": overlong, "input": content.hex}
        action = of_value(Domain.ACTION, value if selection is None else value | {"selection": selection.hex})
        task = PackTask(
            node=digest,
            number=number,
            action=action,
            content=content,
            selection=selection,
            builder=derivation.name,
            length=length,
            overlong=overlong,
            places=origins[number],
            label=f"{label}, part {number}",
        )
        plan.add(action, (), task)
    return plan


def pack(store: Store, task: PackTask) -> PartDone:
    """Publish the index of ``task``: one row a bin, with the ``row`` numbers of its records, ascending.

    Raises ``BuildError`` kind ``record-too-long``, unless ``task.overlong`` says what becomes of such a record.
    """
    stored = store.object(task.content)
    rows = _rows(store, stored, task)
    lengths = _lengths(stored, rows, task)
    capacity = task.length + 1
    if task.overlong == "error" and (lengths > capacity).any():
        raise _too_long(stored, rows, lengths, task)
    if task.overlong == "drop":
        rows, lengths = rows[lengths <= capacity], lengths[lengths <= capacity]
    lengths = np.minimum(lengths, capacity)
    offsets, members = {"fit": fit.fit, "each": fit.each}[task.builder](lengths, capacity)
    packed = Records(schema=_SCHEMA, columns={"row": Column(values=rows[members], offsets=offsets)})
    made = Realisation(
        content=store.write(_SCHEMA, [packed]).content,
        records=len(offsets) - 1,
        elements={"input_ids": int(lengths.sum())},
        longest={"input_ids": _largest(lengths[members], offsets)},
    )
    return keep(store, task.action, made, check=task.check)


def _rows(store: Store, stored: StoredObject, task: PackTask) -> Ints:
    if task.selection is None:
        return np.arange(stored.records)
    chosen = store.object(task.selection)
    rows, _ = chosen.column("row")
    chosen.touch("row", 0, len(rows))
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < stored.records:
        raise CorruptError(
            f"{task.label}: its selection names row {int(rows.max())} of {stored.records}", kind="corrupt"
        )
    return rows


def _lengths(stored: StoredObject, rows: Ints, task: PackTask) -> Ints:
    offsets = stored.column("input_ids")[1] if "input_ids" in stored.schema else None
    if offsets is None:
        raise BuildError(
            f"{task.label}: its records have no column 'input_ids' of tokens to pack",
            kind="missing-column",
            hint='add { use = "tokenize" } to the handlers of its source',
        )
    lengths: Ints = offsets[rows + 1] - offsets[rows]
    return lengths


def _largest(lengths: Ints, offsets: Ints) -> int:
    """Most tokens of a bin."""
    upto = np.concatenate([[0], np.cumsum(lengths)])
    return int(np.diff(upto[offsets]).max(initial=0))


def _too_long(stored: StoredObject, rows: Ints, lengths: Ints, task: PackTask) -> BuildError:
    """The error for the first record of the part that no bin holds, with its file and number where they are known."""
    wrong = np.flatnonzero(lengths > task.length + 1)
    first = int(wrong[0])
    where, place = _place(stored, int(rows[first]), task)
    message = f"{task.label}: {place} has {int(lengths[first])} tokens, above length + 1 = {task.length + 1}"
    if len(wrong) > 1:
        message += f" ({len(wrong)} such records in this part, the longest of {int(lengths.max())})"
    return BuildError(
        message,
        kind="record-too-long",
        where=where,
        hint='raise [examples] length, or set overlong = "cut" or "drop", or keep shorter records only',
    )


def _place(stored: StoredObject, row: int, task: PackTask) -> tuple[Where | None, str]:
    origins, _ = stored.column(RECORD)
    stored.touch(RECORD, row, row + 1)
    segment, number = int(origins[row]) >> SEGMENT_BITS, int(origins[row]) & ((1 << SEGMENT_BITS) - 1)
    if not 0 <= segment < len(task.places):
        return None, f"record {row}"
    place = task.places[segment]
    return Where(path=str(place.path)), f"{place.name}, record {place.first + number}"
