"""Chain: record-wise handlers fused in one pass over a part, with an early cutoff after each user handler.

Safe to cut off because the rest of the chain is a pure function of the records in hand: if their content digest was
seen before with the same rest, its realisation says what the result is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsbuild.build.tasks import Call
from dsbuild.digest import Digest, Domain, of_value
from dsbuild.interfaces import Handler, RecordError
from dsbuild.records import MISSING, Column, Records, concatenate, content_digest
from dsbuild.schema import FIELDS, KEY, RECORD, Field, Schema

Complaint = Callable[[Records, RecordError, bool], bool]
"""Called with the block, the error, and whether the handler may skip; True = the record is left out, the rest goes on.

May raise instead.
"""


def action_key(calls: Sequence[Call], schema: Schema, content: Digest) -> Digest:
    """The action key of a part: handlers, stored columns, and the *content* of the input."""
    value = {"calls": [c.as_json() for c in calls], "columns": schema.as_json(), "input": content.hex}
    return of_value(Domain.ACTION, value)


def input_digest(reader: str, arguments: dict[str, Any], contents: Sequence[tuple[Digest, Any]]) -> Digest:
    """What a part's input is: the reader and its arguments, and (content, context) of each segment."""
    value = {
        "reader": reader,
        "arguments": arguments,
        "segments": [{"content": c.hex, "context": context} for c, context in contents],
    }
    return of_value(Domain.INPUT, value)


def pack_fields(records: Records, typed: frozenset[str] = frozenset()) -> Records:
    """All columns but ``typed`` and the reserved ones, folded into one ``@fields`` column of dicts."""
    kept = {n for n in records.schema.names if n.startswith("@") or n in typed or records.schema[n].dtype != "json"}
    folded = [n for n in records.schema.names if n not in kept]
    rows: list[dict[str, Any]] = (
        list(records[FIELDS].values) if FIELDS in records.schema else [{} for _ in range(len(records))]
    )
    if folded:
        columns = [(n, records[n].values) for n in folded]
        rows = [
            {**row, **{n: values[i] for n, values in columns if values[i] is not MISSING}} for i, row in enumerate(rows)
        ]
    field = Field(name=FIELDS, dtype="json")
    return records.select(kept).replace({FIELDS: (field, Column(values=rows))})


def unpack_fields(records: Records, wanted: frozenset[str] | None = None) -> Records:
    """The inverse of ``pack_fields``; only the fields ``wanted`` where given."""
    if FIELDS not in records.schema:
        return records
    rows = records[FIELDS].values
    names = sorted({n for row in rows for n in row}) if wanted is None else sorted(wanted - set(records.schema.names))
    changes = {n: (Field(name=n, dtype="json"), Column(values=[row.get(n, MISSING) for row in rows])) for n in names}
    return records.drop([FIELDS]).replace(changes)


def store_form(records: Records, schema: Schema) -> Records:
    """The columns that ``schema`` stores, typed as it says. Raises ``RecordError`` for a record without one."""
    if FIELDS in schema:
        records = _folded(records, frozenset(n for n in schema.names if not n.startswith("@")))
    if "labels" in schema and "input_ids" in schema:
        _check_aligned(records)
    changes = {}
    for field in schema.fields:
        if field.name not in records.schema:
            raise RecordError(0, f"no handler made column '{field.name}'", "missing-column")
        have = records.schema[field.name]
        column = records[field.name]
        if isinstance(column.values, list) and any(v is MISSING for v in column.values):
            row = next(i for i, v in enumerate(column.values) if v is MISSING)
            raise RecordError(row, f"the record has no field '{field.name}'", "missing-column")
        if have != field:
            if field.dtype != "json" or have.dtype not in ("json", "text"):
                raise RecordError(0, f"column '{field.name}' is {have.dtype}{list(have.shape)}, not {field.dtype}")
            changes[field.name] = (field, column)
    return records.replace(changes).select([*schema.names, KEY, RECORD])


def _folded(records: Records, typed: frozenset[str]) -> Records:
    """Every column that the schema does not name in ``@fields``: text and JSON alike; no other type fits there."""
    changes = {}
    for field in records.schema.fields:
        if field.name.startswith("@") or field.name in typed or field.dtype == "json":
            continue
        if field.dtype != "text":
            hint = (
                f'several nodes use these records: {{ use = "drop", columns = ["{field.name}"] }}, or keep to one user'
            )
            raise RecordError(0, f"column '{field.name}' is {field.dtype}, which a branch can't keep", "not-yet", hint)
        changes[field.name] = (Field(name=field.name, dtype="json"), records[field.name])
    return pack_fields(records.replace(changes), typed)


def _check_aligned(records: Records) -> None:
    """Labels stand beside their tokens, one each."""
    a, b = records["labels"].offsets, records["input_ids"].offsets
    if a is None or b is None:
        return  # a column of another type: told where it is stored
    wrong = np.flatnonzero(np.diff(a) != np.diff(b))
    if len(wrong):
        row = int(wrong[0])
        counts = f"{int(np.diff(a)[row])} labels for {int(np.diff(b)[row])} tokens"
        raise RecordError(row, f"the record has {counts}", "handler-error", "make one label a token, -100 without loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A handler of a chain with its hashed form; ``user``: its output is digested for the early cutoff."""

    call: Call
    handler: Handler
    user: bool


def apply(stage: Stage, records: Records, complain: Complaint) -> Records:
    """One handler on one block; records that it complains about are skipped if ``complain`` says so."""
    made: list[Records] = []
    while True:
        try:
            made.append(stage.handler.apply(records))
            return concatenate(made)
        except RecordError as error:
            if not complain(records, error, stage.call.skip):
                raise
            if error.row:
                made.append(apply(stage, records.take(np.arange(error.row)), complain))
            records = records.take(np.arange(error.row + 1, len(records)))


def run(
    stages: Sequence[Stage],
    blocks: Iterable[Records],
    complain: Complaint,
    seen: Callable[[Sequence[Call], Digest], Any],
) -> Iterator[Records] | Any:
    """Blocks after all stages; or, where ``seen(rest, content)`` finds the rest done before, what it found.

    The records of the whole part are held in memory only after a user handler that others follow.
    """
    first_user = next((i for i, s in enumerate(stages[:-1]) if s.user), None)
    if first_user is None:
        return (_through(stages, block, complain) for block in blocks)
    head, rest = stages[: first_user + 1], stages[first_user + 1 :]
    held = [pack_fields(_through(head, block, complain)) for block in blocks]
    if not held:
        return iter(())
    content = content_digest(concatenate(held).select([*held[0].schema.names]))
    found = seen([s.call for s in rest], content)
    if found is not None:
        return found
    return run(rest, (unpack_fields(block) for block in _drain(held)), complain, seen)


def _drain(held: list[Records]) -> Iterator[Records]:
    while held:
        yield held.pop(0)


def _through(stages: Sequence[Stage], records: Records, complain: Complaint) -> Records:
    for stage in stages:
        records = apply(stage, records, complain)
    return records
