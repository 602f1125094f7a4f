"""Split nodes: shares keep their keys, counts are exact, and parts that a moved bound does not touch are reused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dsbuild.build import LocalExecutor, failure, recheck
from dsbuild.build.run import Observer
from dsbuild.build.selecting import plan_split
from dsbuild.errors import BuildError
from dsbuild.graph.derivation import Derivation
from dsbuild.order import split

ALONE = {"pack": "none", "length": 64}
TEXTS = [[f"file {file} row {row}" for row in range(12)] for file in range(5)]


def shares(low: int, high: int) -> Derivation:
    return Derivation(kind="split", builder="split@1", inputs=[], arguments={"name": "train", "low": low, "high": high})


def counted(name: str, counts: dict[str, int], fractions: dict[str, Fraction] | None = None) -> Derivation:
    arguments = {"name": name, "counts": counts, "fractions": fractions or {}}
    return Derivation(kind="split", builder="split@1", inputs=[], arguments=arguments)


def chosen(stack: Any, node: Derivation) -> list[int]:
    """The rows over the whole source that a split node takes."""
    world = stack.world(node, examples=ALONE)
    assert failure(stack.build(world)) is None
    firsts = world.store.manifest(stack.node(world, "records")).record_starts.tolist()
    return [
        first + row for first, rows in zip(firsts, stack.column(world, "split", "row"), strict=False) for row in rows
    ]


def keys_of(stack: Any) -> np.ndarray:
    world = stack.world(examples=ALONE)
    stack.build(world)
    return np.array([k for part in stack.column(world, "records", "@key") for k in part], np.uint64)


def test_shares_keep_their_action_keys(stack: Any) -> None:
    made = stack(TEXTS)
    world = made.world(shares(1 << 62, 1 << 64), examples=ALONE)
    assert failure(made.build(world)) is None
    content = world.store.manifest(made.node(world, "records")).content(0)
    from dsbuild.digest import Domain, of_value

    value = {"split": 1, "low": 1 << 62, "high": 1 << 64, "input": content.hex}
    assert plan_split(world, made.node(world, "split")).actions[0] == of_value(Domain.ACTION, value)
    keys = keys_of(made)
    assert chosen(made, shares(1 << 62, 1 << 64)) == np.flatnonzero(keys >= np.uint64(1 << 62)).tolist()


TABLES: list[dict[str, Any]] = [
    {"valid": 7},
    {"valid": 7, "test": 1, "train": Fraction(1)},
    {"valid": 20, "train": Fraction(1, 2)},
    {"valid": 60},
]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("texts", [TEXTS, [["same"] * 12] * 5, [["a", "b", "a", "c"] * 3] * 5])
def test_counts_are_those_of_the_order(stack: Any, table: dict[str, Any], texts: Any) -> None:
    """Also where all keys are one, and where equal parts lie on both sides of a bound."""
    made = stack(texts)
    keys = keys_of(made)
    counts = {n: v for n, v in table.items() if isinstance(v, int)}
    fractions = {n: v for n, v in table.items() if not isinstance(v, int)}
    for name, whole in split.ranges(table, keys).items():
        if whole.choose(keys).any():  # a split without records is an error of its own
            assert chosen(made, counted(name, counts, fractions)) == np.flatnonzero(whole.choose(keys)).tolist()


def test_too_few_records(stack: Any) -> None:
    made = stack(TEXTS)
    report = made.build(made.world(counted("valid", {"valid": 40, "test": 30}), examples=ALONE))
    error = failure(report)
    assert isinstance(error, BuildError)
    assert error.kind == "too-few-records"
    assert str(error) == "source.a: split = { test = 30, valid = 40 } takes 70 records of 60"
    assert report.nodes[0].built == 5  # the records are there


def test_a_moved_bound_costs_the_parts_it_passes(stack: Any) -> None:
    made = stack(TEXTS)
    made.build(made.world(counted("valid", {"valid": 6}), examples=ALONE))
    again = made.build(made.world(counted("valid", {"valid": 6}), examples=ALONE))
    assert again.built == 0
    made.files([*TEXTS[:4], ["changed"]])
    report = made.build(made.world(counted("valid", {"valid": 6}), examples=ALONE))
    rows = {n.kind: n for n in report.nodes}
    assert rows["records"].built == 1
    assert rows["split"].built <= 3  # the changed part, and where the record that came or went is


def test_workers_and_recheck(stack: Any) -> None:
    made = stack(TEXTS)
    world = made.world(counted("valid", {"valid": 6}), examples=ALONE)
    assert failure(made.build(world, executor=LocalExecutor(jobs=2))) is None
    work = made.session().work(world.store)
    assert recheck(world, LocalExecutor(jobs=1), work, Fraction(1), Observer()) == 10
