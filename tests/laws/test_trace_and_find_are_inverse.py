"""Law: trace and find are inverse, and what trace says of a batch, read from the source files, is the batch.

The oracle knows nothing of stores: tokens are bytes, and what a record becomes is said here once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsbuild.build import InlineExecutor, build, failure, prepare
from dsbuild.cli.outputs import finish
from dsbuild.errors import NotFoundError
from dsbuild.load import Dataset, open_dataset
from dsbuild.load.find import find
from dsbuild.load.trace import trace
from dsbuild.store import Store

LENGTH = 24
RECIPE = """
dsbuild = 1
name = "law"
seed = 5
[tokenizer]
file = "bytes"
[source.raw]
files = ["raw/*.jsonl"]
part_bytes = 4096
[source.tail]
files = ["tail/*.csv"]
[source.end]
files = ["end/*.jsonl"]
[source.web]
from = "raw"
{source}
handlers = [{{ use = "tokenize" }}]
[source.chat]
files = ["chat/*.jsonl", "chat/*.txt"]
handlers = [{{ use = "keep", where = "len(text) != 7" }}, {{ use = "halve.py:halve" }}, {{ use = "tokenize" }}]
{source}
[source.joined]
from = ["tail", "raw", "end"]
handlers = [{{ use = "keep", where = "len(text) < 90" }}, {{ use = "tokenize" }}]
{source}
[mixture.train]
weights = {{ web = 2, chat = 1, joined = 3 }}
until = {until}
{valid}
[examples]
length = 24
{examples}
"""
HALVE = """
def halve(record):
    text = record["text"]
    return [{**record, "text": part} for part in (text[: len(text) // 2], text[len(text) // 2 :])]
"""
PACKS = ['pack = "concat"', 'pack = "fit"\noverlong = "cut"', 'pack = "none"\noverlong = "drop"']
PACKS += ['pack = "fit"\noverlong = "drop"', 'pack = "none"\noverlong = "cut"']
SHUFFLES = ['"full"', '"none"', "{ block = 3, window = 2 }", "{ era = 5 }"]
SPLITS = ["", "split = { train = 0.6, valid = 0.4 }", "split = { valid = 9, train = 1.0 }"]
ORDERS = ["", "order = { interleave = 2 }"]
UNTILS = ['"first"', '"all"', "{ epochs = 1.6 }"]
RECIPES = st.tuples(*(st.sampled_from(choices) for choices in (PACKS, SHUFFLES, SPLITS, ORDERS, UNTILS)))

Tokens = dict[tuple[str, str, int, int], list[int]]
"""Tokens by (source, file, record, child)."""


def texts(number: int, count: int) -> list[str]:
    return [f"{number}.{k}" + "xyz" * ((number * 31 + k * 7) % 23) if (k + number) % 6 else "" for k in range(count)]


class World:
    """The files, a store, and the datasets that were asked for, each built once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.datasets: dict[tuple[str, ...], Dataset] = {}
        self.places: dict[tuple[str, ...], dict[tuple[Any, ...], set[Any]]] = {}
        self.tokens: Tokens = {}
        (root / "halve.py").write_text(HALVE)
        for name, count in (
            ("raw/0", 160),
            ("raw/1", 12),
            ("raw/2", 60),
            ("end/0", 5),
            ("tail/0", 9),
            ("chat/0", 14),
            ("chat/1", 8),
        ):
            rows = texts(int(name[-1]) + len(name), count)
            if name.startswith("tail"):
                self.write(f"{name}.csv", "text,n\n" + "".join(f"{t},1\n" for t in rows))
            else:
                self.write(f"{name}.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in rows))
        self.write("chat/2.txt", "one whole file\nwith lines")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        rows = [text]
        if name.endswith(".csv"):
            rows = [line.rpartition(",")[0] for line in text.splitlines()[1:]]
        elif name.endswith(".jsonl"):
            rows = [json.loads(line)["text"] for line in text.splitlines()]
        for record, row in enumerate(rows):
            for source in {"raw": ("web", "joined"), "tail": ("joined",), "end": ("joined",), "chat": ("chat",)}[
                name.partition("/")[0]
            ]:
                for child, made in enumerate(self.made(source, row)):
                    self.tokens[source, name, record, child] = list(made.encode())

    @staticmethod
    def made(source: str, text: str) -> list[str]:
        if source == "chat":
            return [] if len(text) == 7 else [text[: len(text) // 2], text[len(text) // 2 :]]
        return [text] if source == "web" or len(text) < 90 else []

    def open(self, recipe: tuple[str, ...]) -> Dataset:
        if recipe not in self.datasets:
            pack, shuffle, split, order, until = recipe
            both = "web = 1, joined = 1, " if "0.4" in split else ""  # by counts they would leak into each other
            valid = f"[mixture.valid]\nweights = {{ {both}chat = 1 }}" if split else ""
            text = RECIPE.format(
                source=f"{split}\n{order}", until=until, valid=valid, examples=f"{pack}\nshuffle = {shuffle}"
            )
            path = self.root / "recipe.toml"
            path.write_text(text)
            store = Store.open(self.root / "store", create=True)
            session = prepare(path, store=store)
            report = build(session.instance.graph, store, session.files, InlineExecutor(), session.work(store))
            error = failure(report)
            if error is not None:
                raise error
            finish(session, store, report)
            self.datasets[recipe] = open_dataset(session.digest.hex, store=store)
        return self.datasets[recipe]

    def everything(self, recipe: tuple[str, ...]) -> dict[tuple[Any, ...], set[Any]]:
        """All places of the stream by (source, file number, record), by tracing every example."""
        if recipe not in self.places:
            found: dict[tuple[Any, ...], set[Any]] = {}
            dataset = self.open(recipe)
            for t in trace(dataset, 0, len(dataset)):
                for p in t.pieces:
                    place = (t.position, t.epoch, t.example, p.child, p.start, p.stop, p.row_start, p.row_stop)
                    found.setdefault((t.name, p.file.ordinal, p.record), set()).add(place)
            self.places[recipe] = found
        return self.places[recipe]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def trace_tells_the_batch(world: World, recipe: tuple[str, ...], data: Any, tracer: Callable[..., Any] = trace) -> None:
    dataset = world.open(recipe)
    size = data.draw(st.integers(1, 9), "size")
    step = data.draw(st.integers(0, dataset.steps(size) - 1), "step")
    ranks = data.draw(st.integers(1, size), "world")
    rank = data.draw(st.integers(0, ranks - 1), "rank")
    batch = dataset.batch(step, size, rank, ranks, uneven=True)
    told = tracer(dataset, step, size, rank, ranks, uneven=True)
    rows = dataset.rows(step, size, rank, ranks, uneven=True)
    assert [t.position for t in told] == rows["position"].tolist()
    assert [t.epoch for t in told] == rows["epoch"].tolist()
    assert [t.example for t in told] == rows["example"].tolist()
    assert [t.source for t in told] == [dataset.sources[n].digest for n in rows["source"]]
    for row, t in enumerate(told):
        tokens: list[int] = []
        for p in t.pieces:
            assert p.row_start == len(tokens)
            found = world.tokens[t.name, p.file.name, p.record, p.child]
            assert 0 <= p.start <= p.stop <= len(found)
            assert p.start < p.stop or not found
            tokens += found[p.start : p.stop]
            assert p.row_stop == len(tokens)
        ids, labels = batch["input_ids"][row].tolist(), batch["labels"][row].tolist()
        used = min(len(tokens), LENGTH)
        assert len(tokens) <= LENGTH + 1
        assert ids == tokens[:used] + [0] * (LENGTH - used)
        assert labels == tokens[1:] + [-100] * (LENGTH - max(len(tokens) - 1, 0))


def find_undoes_trace(world: World, recipe: tuple[str, ...], data: Any, finder: Callable[..., Any] = find) -> None:
    dataset = world.open(recipe)
    places = world.everything(recipe)
    if data.draw(st.booleans(), "of a piece"):
        source, file, record = data.draw(st.sampled_from(sorted(places)), "place")
    else:
        source = data.draw(st.sampled_from(["web", "chat", "joined"]), "source")
        file = data.draw(st.integers(0, {"web": 2, "chat": 2, "joined": 4}[source]), "file")
        record = data.draw(st.integers(-1, 170), "record")
    expected = places.get((source, file, record), set())
    size = data.draw(st.integers(1, 9), "size")
    try:
        found = finder(dataset, source, record, file, size=size)
    except NotFoundError as error:
        assert error.kind == "not-in-stream"
        assert not expected
        return
    assert expected
    got = [(f.position, f.epoch, f.example, f.child, f.start, f.stop, f.row_start, f.row_stop) for f in found]
    assert got == sorted(got, key=lambda place: (place[0], place[6]))
    assert len(set(got)) == len(got)
    assert set(got) == expected
    for f in found:
        assert (f.step, f.row) == (
            divmod(f.position, size) if f.position // size < dataset.steps(size) else (None, None)
        )


@settings(max_examples=40, deadline=None)
@given(recipe=RECIPES, data=st.data())
def test_trace_tells_the_batch(world, recipe, data):
    trace_tells_the_batch(world, recipe, data)


@settings(max_examples=80, deadline=None)
@given(recipe=RECIPES, data=st.data())
def test_find_undoes_trace(world, recipe, data):
    find_undoes_trace(world, recipe, data)


def shifted(dataset: Dataset, *arguments: Any, **options: Any) -> list[Any]:
    """A mutant: spans of pieces that are cut at the start of a row count from there."""
    found = trace(dataset, *arguments, **options)
    return [replace(t, pieces=tuple(replace(p, start=0, stop=p.stop - p.start) for p in t.pieces)) for t in found]


def once(dataset: Dataset, *arguments: Any, **options: Any) -> list[Any]:
    """A mutant: finds a record in its first epoch only."""
    return [f for f in find(dataset, *arguments, **options) if f.epoch == 0]


def inputs_only(dataset: Dataset, *arguments: Any, **options: Any) -> list[Any]:
    """A mutant: leaves out windows that have the record's first token as a target only."""
    found = find(dataset, *arguments, **options)
    return [f for f in found if f.row_start < LENGTH]


@pytest.mark.parametrize(
    "law",
    [
        partial(trace_tells_the_batch, tracer=shifted),
        partial(find_undoes_trace, finder=once),
        partial(find_undoes_trace, finder=inputs_only),
    ],
)
def test_mutants_die(world, law):
    recipes = [(PACKS[0], SHUFFLES[0], SPLITS[0], ORDERS[0], UNTILS[2])]

    @settings(max_examples=200, deadline=None, database=None, phases=[Phase.generate], report_multiple_bugs=False)
    @given(recipe=st.sampled_from(recipes), data=st.data())
    def refuted(recipe, data):
        law(world, recipe, data)

    with pytest.raises(AssertionError):
        refuted()


def test_no_trace_of_nothing(world):
    dataset = world.open((PACKS[0], SHUFFLES[0], SPLITS[0], ORDERS[0], UNTILS[0]))
    assert trace(dataset, 0, 1, 0, 2, uneven=True) == []
    assert np.array_equal(dataset.batch(0, 1, 1, 2, uneven=True)["input_ids"].shape, (1, LENGTH))
