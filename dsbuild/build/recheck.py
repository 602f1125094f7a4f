"""Recheck: make a sample of published parts again and compare content digests.

What differs was not a function of its key: user Python that draws random numbers or reads a clock, or a library that
changed under its version. The sample is chosen by action key, so it is the same wherever it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dsbuild.build.plan import STORED, World, manifest_of
from dsbuild.build.run import Observer, plan_node
from dsbuild.build.tasks import PartDone, PartTask, RecordsTask
from dsbuild.errors import Diagnostic, NonDeterministicError
from dsbuild.interfaces import Executor
from dsbuild.records import Records


def recheck(world: World, executor: Executor, work: Callable[[Any], Any], share: Fraction, observer: Observer) -> int:
    """Make about ``share`` of the parts of every node again; how many were made.

    Raises ``NonDeterministicError`` naming each part that came out different, with its first differing record.
    """
    tasks = list(_sample(world, share))
    observer.planned(len(tasks), sum(t.bytes for t in tasks))
    found = []
    for done in executor.run(iter(tasks), work):
        observer.done(done.task, done.value)
        if done.error is not None:
            raise done.error
        assert isinstance(done.value, PartDone)
        published = manifest_of(world, done.task.node).content(done.task.number)
        if done.value.content != published:
            found.append(_difference(world, done.task, done.value, published))
    if found:
        raise NonDeterministicError(diagnostics=found)
    return len(tasks)


def _sample(world: World, share: Fraction) -> Iterator[PartTask]:
    border = int(share * (1 << 64))
    for digest in world.graph.closure(world.graph.output):
        if world.graph.derivations[digest].kind in STORED:
            for task in plan_node(world, digest).everything:
                if int.from_bytes(task.action.raw[:8], "little") < border:
                    yield replace(task, check=True)


def _difference(world: World, task: PartTask, made: PartDone, published: Any) -> Diagnostic:
    old, new = (world.store.object(c) for c in (published, made.content))
    a, b = old.records_view(old.schema.names), new.records_view(new.schema.names)
    return Diagnostic(
        message=f"{task.label}: built again it differs ({made.content.short}, published {published.short}); "
        + _first_difference(a, b),
        kind="non-deterministic",
        hint="a handler must be a function of its record alone: no clock, no random numbers, no order of sets"
        if isinstance(task, RecordsTask)
        else "a split or pack was made by another release than it says: please report it",
    )


def _first_difference(a: Records, b: Records) -> str:
    for row in range(min(len(a), len(b))):
        for name in a.schema.names:
            x, y = a[name][row], b[name][row]
            if not (np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y):
                return f"first in record {row}, column '{name}': {_short(x)} and {_short(y)}"
    return f"{len(a)} records and {len(b)}"


def _short(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= 60 else text[:57] + "..."
