"""Pack nodes: every record in one bin of its part, long ones told or treated, and one part's work for one file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dsbuild.build import InlineExecutor, LocalExecutor, build, contents_of, failure, recheck
from dsbuild.build.run import Observer
from dsbuild.errors import BuildError
from dsbuild.graph.derivation import Derivation
from dsbuild.store import collect, verify

HEAD = 'dsbuild = 1\nname = "r"\n[tokenizer]\nfile = "bytes"\n'
SOURCE = '[source.a]\nfiles = "data/*.jsonl"\npart_bytes = 4096\nhandlers = [{ use = "tokenize" }]\n'
TAIL = "[mixture.train]\nweights = { a = 1 }\n[examples]\nlength = 8\n"
LENGTH = 15
TEXTS = [["x" * (1 + (row * 7 + file) % 16) for row in range(30)] for file in range(4)]


def packed(builder: str = "fit@1", length: int = LENGTH, **arguments: Any) -> Derivation:
    return Derivation(kind="pack", builder=builder, inputs=[], arguments={"length": length, **arguments})


def half() -> Derivation:
    arguments = {"name": "train", "low": 0, "high": 1 << 63}
    return Derivation(kind="split", builder="split@1", inputs=[], arguments=arguments)


def lengths_of(stack: Any, world: Any) -> list[list[int]]:
    return [[len(ids) for ids in part] for part in stack.column(world, "records", "input_ids")]


def check_bins(bins: list[list[int]], lengths: dict[int, int], capacity: int) -> None:
    """The records of ``lengths`` each once, in bins that hold them, in order within each."""
    assert sorted(row for b in bins for row in b) == sorted(lengths)
    assert all(b and b == sorted(b) for b in bins)
    assert all(sum(lengths[row] for row in b) <= capacity for b in bins)


@pytest.mark.parametrize("below", [[], [half()]])
def test_every_record_in_one_bin(stack: Any, below: list[Derivation]) -> None:
    made = stack(TEXTS)
    world = made.world(*below, packed())
    assert failure(made.build(world)) is None
    manifest = world.store.manifest(made.node(world, "pack"))
    bins, lengths = made.column(world, "pack", "row"), lengths_of(made, world)
    chosen = made.column(world, "split", "row") if below else [range(30)] * 4
    for part in range(4):
        mine = {row: lengths[part][row] for row in chosen[part]}
        check_bins(bins[part], mine, LENGTH + 1)
        sizes = [sum(mine[row] for row in b) for b in bins[part]]
        assert manifest.records[part] == len(sizes)
        assert manifest.elements["input_ids"][part] == sum(sizes)
        assert manifest.longest["input_ids"][part] == max(sizes)
        assert sum(sizes) / (len(sizes) * (LENGTH + 1)) > 0.8
    assert not verify(world.store).damage


def test_records_without_tokens_are_in_no_bin(stack: Any) -> None:
    made = stack([["", "abc", ""], ["", ""]])
    world = made.world(packed())
    assert failure(made.build(world)) is None
    assert made.column(world, "pack", "row") == [[[1]], []]
    manifest = world.store.manifest(made.node(world, "pack"))
    assert manifest.records.tolist() == [1, 0]
    assert manifest.longest["input_ids"].tolist() == [3, 0]


def test_a_long_record_is_told_with_its_file(stack: Any) -> None:
    made = stack([["short"], ["fits", "x" * 16, "y" * 17, "z" * 20]])
    report = made.build(made.world(packed()))
    error = failure(report)
    assert isinstance(error, BuildError)
    assert error.kind == "record-too-long"
    (told,) = error.diagnostics
    assert told.message == (
        "source.a/train, part 1: data/01.jsonl, record 2 has 17 tokens, above length + 1 = 16 "
        "(2 such records in this part, the longest of 20)"
    )
    assert str(told.where).endswith("data/01.jsonl")
    assert 'overlong = "cut"' in str(told.hint)
    assert [n.failed for n in report.nodes] == [0, 1]


@pytest.mark.parametrize("builder", ["fit@1", "each@1"])
def test_long_records_cut_or_dropped(stack: Any, builder: str) -> None:
    made = stack([["fits", "x" * 16, "y" * 17, "z" * 40]])
    world = made.world(packed(builder, overlong="cut"))
    assert failure(made.build(world)) is None
    check_bins(made.column(world, "pack", "row")[0], {0: 4, 1: 16, 2: 16, 3: 16}, 16)
    manifest = world.store.manifest(made.node(world, "pack"))
    assert manifest.elements["input_ids"].tolist() == [52]
    world = made.world(packed(builder, overlong="drop"))
    assert failure(made.build(world)) is None
    assert made.column(world, "pack", "row") == [[[0], [1]]]


def test_each_makes_a_bin_of_a_record(stack: Any) -> None:
    made = stack(TEXTS)
    world = made.world(packed("each@1", overlong="drop"), examples={"pack": "none"})
    assert failure(made.build(world)) is None
    assert made.column(world, "pack", "row") == [[[row] for row in range(30)]] * 4


def test_each_keeps_records_without_tokens(stack: Any) -> None:
    """As ``pack = "none"`` has them without an index: what is left out is what is too long, and nothing else."""
    made = stack([["", "abc", "x" * 40, ""]])
    world = made.world(packed("each@1", overlong="drop"), examples={"pack": "none"})
    assert failure(made.build(world)) is None
    assert made.column(world, "pack", "row") == [[[0], [1], [3]]]


def test_what_a_changed_file_costs(stack: Any) -> None:
    made = stack(TEXTS)
    assert failure(made.build(made.world(half(), packed()))) is None
    assert made.build(made.world(half(), packed())).built == 0
    made.files([*TEXTS[:3], ["new " * n for n in range(4)]])
    report = made.build(made.world(half(), packed()))
    assert failure(report) is None
    assert {n.kind: (n.built, n.reused) for n in report.nodes} == {"records": (1, 3), "split": (1, 3), "pack": (1, 3)}
    report = made.build(made.world(half(), packed(length=20)))
    assert {n.kind: n.built for n in report.nodes} == {"records": 0, "split": 0, "pack": 4}


def test_workers_dry_run_and_recheck(stack: Any, make_project: Callable[[], Any]) -> None:
    made = stack(TEXTS)
    world = made.world(half(), packed())
    dry = made.build(world, dry_run=True)
    assert [(n.kind, n.waiting) for n in dry.nodes] == [("records", False), ("split", True), ("pack", True)]
    assert failure(made.build(world, executor=LocalExecutor(jobs=2))) is None
    dry = made.build(world, dry_run=True)
    assert [(n.parts, n.reused) for n in dry.nodes] == [(4, 4)] * 3
    work = made.session().work(world.store)
    assert recheck(world, InlineExecutor(), work, Fraction(1), Observer()) == 12
    twin = type(made)(make_project())
    twin.files(TEXTS)
    other = twin.world(half(), packed())
    assert failure(twin.build(other)) is None
    node = made.node(world, "pack")
    assert contents_of(other.store.manifest(node)) == contents_of(world.store.manifest(node))


def test_collecting_keeps_what_a_root_needs(stack: Any) -> None:
    made = stack(TEXTS)
    made.build(made.world(half(), packed(length=20)))
    world = made.world(half(), packed())
    assert failure(made.build(world, root="r")) is None
    collect(world.store, now=4e9)
    assert made.build(world).built == 0
    assert not verify(world.store, [world.graph.output]).damage
    assert made.build(made.world(half(), packed(length=20))).built == 4


def test_killed_half_way(stack: Any) -> None:
    made = stack(TEXTS)
    world = made.world(half(), packed())
    work, seen = made.session().work(world.store), []

    class Killed(BaseException):
        pass

    def dies(task: Any) -> Any:
        if len(seen) == 10:  # 4 records, 4 split, 2 pack
            raise Killed
        seen.append(task)
        return work(task)

    with pytest.raises(Killed):
        build(world.graph, world.store, world.files, InlineExecutor(), dies)
    report = made.build(world)
    assert {n.kind: (n.built, n.reused) for n in report.nodes} == {"records": (0, 4), "split": (0, 4), "pack": (2, 2)}


def test_places_in_a_part_of_several_files(stack: Any) -> None:
    made = stack([["ab"], ["cd", "ef"], ["gh", "x" * 40]])
    made.project.write("recipe.toml", HEAD + SOURCE.replace("part_bytes = 4096\n", "") + TAIL)
    error = failure(made.build(made.world(packed())))
    assert str(error).startswith("source.a/train, part 0: data/02.jsonl, record 1 has 40 tokens")


def test_places_of_a_branch(stack: Any) -> None:
    made = stack([["ab"], ["cd", "x" * 40]])
    head, source, tail = HEAD, SOURCE.replace("[source.a]", "[source.files]"), TAIL
    source = source.replace('handlers = [{ use = "tokenize" }]\n', "split = { train = 0.5, other = 0.5 }\n")
    branch = '[source.{0}]\nfrom = "files"\nsplit = {{ train = 0.5, other = 0.5 }}\nhandlers = [{1}]\n'
    copy = '{ use = "copy", columns = { text = "copy" } }, { use = "tokenize" }'
    branches = branch.format("a", '{ use = "tokenize" }') + branch.format("b", copy)
    made.project.write("recipe.toml", head + source + branches + "[mixture.other]\nweights = { b = 1 }\n" + tail)
    assert "files" in made.session().instance.outputs  # stored, for both to read
    error = failure(made.build(made.world(packed())))
    assert str(error).startswith("source.a/train, part 1: data/01.jsonl, record 1 has 40 tokens")


def test_places_of_other_recipes(stack: Any) -> None:
    made = stack([["ab"], ["cd", "x" * 40]])
    made.build(made.world(packed(overlong="cut")))
    records = made.session().instance.outputs["a"].hex
    source = f'[source.a]\nfrom = "drv:{records}"\n'
    made.project.write("recipe.toml", HEAD + source + TAIL)
    error = failure(made.build(made.world(packed())))
    assert error is not None
    assert str(error).startswith("source.a/train, part 1: record 1 has 40 tokens")
