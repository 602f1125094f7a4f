"""Selecting: the parts of a ``split`` node, each the rows of one part of its records that the split takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from dsbuild.build.bounds import Keys, range_of, rank
from dsbuild.build.plan import NodePlan, World, contents_of, manifest_of
from dsbuild.build.tasks import PartDone, SelectTask
from dsbuild.digest import Digest, Domain, of_value
from dsbuild.errors import BuildError
from dsbuild.graph.derivation import Derivation
from dsbuild.order.split import Range
from dsbuild.records import Column, Records
from dsbuild.schema import KEY, Field, Schema
from dsbuild.store import Realisation, Store, StoredObject

_BLOCK = 1 << 20
"""Keys that are looked at together."""

_SCHEMA = Schema.of(Field(name="row", dtype="int64"), Field(name="end", dtype="int64"))


def plan_split(world: World, digest: Digest) -> NodePlan:
    """The plan of a ``split`` node over its records' parts. Raises ``BuildError`` for counts beyond its records.

    A part's action key holds the content of its records, and of the split what matters there: the range of keys or,
    under counts, which ranks in the part's own order of (key, row) are chosen. So a changed file, which moves the
    bounds of counts, leaves alone the parts in which they pass no record.
    """
    derivation = world.derivation(digest)
    (base,) = derivation.references()
    plan = NodePlan(digest=digest, schema=Schema(fields=()))
    chosen = _by_counts if "counts" in derivation.arguments else _by_keys
    label = world.graph.label(digest)
    for number, (content, value, part) in enumerate(chosen(world, derivation, base)):
        action = of_value(Domain.ACTION, {"split": derivation.version, "input": content.hex, **value})
        task = SelectTask(
            node=digest, number=number, action=action, content=content, chosen=part, label=f"{label}, part {number}"
        )
        plan.add(action, (), task)
    return plan


_Parts = Iterator[tuple[Digest, Mapping[str, object], Range]]
"""For each part the content of its records, what of the split is in its action key, and the range in its own rows."""


def _by_keys(world: World, derivation: Derivation, base: Digest) -> _Parts:
    low, high = int(derivation.arguments["low"]), int(derivation.arguments["high"])
    for content in contents_of(manifest_of(world, base)):
        yield content, {"low": low, "high": high}, Range(low=(low, 0), high=(high, 0))


def _by_counts(world: World, derivation: Derivation, base: Digest) -> _Parts:
    manifest = manifest_of(world, base)
    counts = {name: int(n) for name, n in derivation.arguments["counts"].items()}
    fractions = {name: Fraction(share) for name, share in derivation.arguments.get("fractions", {}).items()}
    if sum(counts.values()) > manifest.total:
        told = ", ".join(f"{name} = {n}" for name, n in sorted(counts.items()))
        raise BuildError(
            f"{world.graph.label(base)}: split = {{ {told} }} takes {sum(counts.values())} records of {manifest.total}",
            kind="too-few-records",
            hint="lower the counts, add files, or give shares of the records instead (a decimal below 1)",
        )
    contents = contents_of(manifest)
    whole = range_of(str(derivation.arguments["name"]), counts, fractions, lambda: _blocks(world.store, contents))
    for content, first in zip(contents, manifest.record_starts.tolist(), strict=False):
        keys = _keys(world.store.object(content))
        low, high = rank(keys, first, whole.low), rank(keys, first, whole.high)
        ranks = [low, high] if low < high else [0, 0]  # nothing is nothing, wherever the bounds pass by
        yield content, {"ranks": ranks}, Range(low=_within(whole.low, first), high=_within(whole.high, first))


def _within(bound: tuple[int, int], first: int) -> tuple[int, int]:
    """``bound`` in rows that count from row ``first`` of the source."""
    return bound[0], max(bound[1] - first, 0)


def _blocks(store: Store, contents: list[Digest]) -> Iterator[Keys]:
    for content in contents:
        keys = _keys(store.object(content))
        yield from (keys[at : at + _BLOCK] for at in range(0, len(keys), _BLOCK))


def _keys(stored: StoredObject) -> Keys:
    """The split keys of a stored part, mapped and verified."""
    keys, _ = stored.column(KEY)
    stored.touch(KEY, 0, len(keys))
    return keys


def select(store: Store, task: SelectTask) -> PartDone:
    """Publish the selection of ``task``: the chosen ``row`` numbers, and with each the ``end`` of its tokens so far."""
    stored = store.object(task.content)
    rows = np.flatnonzero(task.chosen.choose(_keys(stored)))
    ends = np.zeros(len(rows), np.int64)
    if "input_ids" in stored.schema and stored.schema["input_ids"].ragged:
        _, offsets = stored.column("input_ids")
        assert offsets is not None
        ends = np.cumsum(offsets[rows + 1] - offsets[rows])
    records = Records(schema=_SCHEMA, columns={"row": Column(values=rows), "end": Column(values=ends)})
    made = Realisation(
        content=store.write(_SCHEMA, [records]).content,
        records=len(rows),
        elements={"input_ids": int(ends[-1]) if len(ends) else 0},
        longest={"input_ids": int(np.diff(ends, prepend=0).max()) if len(ends) else 0},
    )
    return keep(store, task.action, made, check=task.check)


def keep(store: Store, action: Digest, made: Realisation, *, check: bool) -> PartDone:
    """Record what ``action`` gave, unless it was only made to ``check`` it."""
    if not check:
        made = store.realise(action, made)
    return PartDone(
        action=action, content=made.content, records=made.records, elements=made.elements, longest=made.longest
    )
