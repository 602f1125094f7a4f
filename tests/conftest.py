"""Fixtures: the test data, a project (a recipe with its files and store) that tests build and change, and datasets to
read: those of a corpus, built from recipes that differ in all that decides a stream, and those of a shelf, published by
hand with any columns."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.build import BuildReport, InlineExecutor, LocalExecutor, Session, build, contents_of, failure, prepare
from dsbuild.cli.outputs import finish
from dsbuild.digest import Digest
from dsbuild.graph.derivation import Derivation
from dsbuild.load import Dataset, open_dataset
from dsbuild.records import Column, Records
from dsbuild.schema import OBJECTS, Field, Schema
from dsbuild.store import Manifest, Store


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The directory of real inputs; tests that need it are skipped without it."""
    value = os.environ.get("DSBUILD_TEST_DATA")
    if not value:
        pytest.skip("DSBUILD_TEST_DATA is not set")
    return Path(value)


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests never see the caller's store or data directory."""
    monkeypatch.delenv("DSBUILD_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data-home"))


@dataclass(frozen=True)
class Project:
    """A directory with ``recipe.toml``, its files, and a store."""

    root: Path

    @property
    def recipe(self) -> Path:
        return self.root / "recipe.toml"

    @property
    def store(self) -> Store:
        return Store.open(self.root / "store", create=True)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def jsonl(self, name: str, rows: Iterable[Any]) -> Path:
        return self.write(name, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))

    def prepare(self, **options: Any) -> Session:
        return prepare(self.recipe, store=self.store, **options)

    def report(self, *, jobs: int = 0, fail_fast: bool = False, **options: Any) -> BuildReport:
        """Build and return the report, errors included. ``jobs`` 0 = in this process."""
        store = self.store
        session = prepare(self.recipe, store=store, **options)
        executor = LocalExecutor(jobs=jobs) if jobs else InlineExecutor()
        graph, work = session.instance.graph, session.work(store)
        report = build(graph, store, session.files, executor, work, fail_fast=fail_fast, root=session.recipe.name)
        if failure(report) is None:
            finish(session, store, report)
        return report

    def build(self, **options: Any) -> BuildReport:
        """Build; raises what failed."""
        report = self.report(**options)
        error = failure(report)
        if error is not None:
            raise error
        return report

    def open(self, split: str = "train") -> Dataset:
        return open_dataset(self.recipe, split=split, store=self.root / "store")

    def contents(self) -> dict[str, list[str]]:
        """Content digests of every built node, by derivation."""
        store, found = self.store, {}
        for digest in self.prepare().instance.graph.derivations:
            manifest = store.manifest(digest)
            if manifest is not None:
                found[digest.hex] = [c.hex for c in contents_of(manifest)]
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    return lambda: Project(tmp_path_factory.mktemp("project"))


HEAD = """
dsbuild = 1
name = "corpus"
seed = 5
[tokenizer]
file = "bytes"
"""
SOURCE = """
[source.{name}]
files = "{name}/*.jsonl"
part_bytes = 4096
{extra}
handlers = [{{ use = "tokenize" }}]
"""
THREE = "weights = { a = 3, b = 2, c = 1 }"
STAGES = "stages = [{ from = 0, weights = { a = 1, b = 1 } }, { from = 33, weights = { b = 1, c = 4, a = 2 } }]"
SHARES, COUNTS = "split = { train = 0.7, valid = 0.3 }", "split = { train = 1.0, valid = 20 }"
STREAMS: dict[str, tuple[str, str, str]] = {
    # name: keys of every source, of the mixture, and of the examples
    "plain": ("", THREE, ""),
    "files": ("", THREE + '\nuntil = "first"', 'shuffle = "none"'),
    "document": (SHARES, STAGES, 'mask = "document"\nshuffle = { block = 3, window = 4 }'),
    "dealt": ("order = { interleave = 3 }\n" + COUNTS, THREE + "\nuntil = { epochs = 2.5 }", "shuffle = { era = 7 }"),
    "fit": ("", THREE + '\nby = "tokens"', 'pack = "fit"\noverlong = "cut"\nmask = "document"'),
    "fit-dealt": (
        SHARES + "\norder = { interleave = 2 }",
        STAGES + '\nuntil = "first"',
        'pack = "fit"\noverlong = "drop"\nshuffle = { block = 2, window = 8 }',
    ),
    "none": (
        "",
        THREE + "\nmax_epochs = { a = 0.5, c = 2 }",
        'pack = "none"\noverlong = "cut"\nmask = "document"\nshuffle = { era = 16 }',
    ),
    "none-dealt": (
        COUNTS + "\norder = { interleave = 4 }",
        STAGES + "\nuntil = { epochs = 1 }",
        'pack = "none"\noverlong = "drop"\nshuffle = "none"',
    ),
}
"""Each value of what decides a stream is in one of them: pack, mask, shuffle, until, stages, splits, interleave."""


@dataclass(frozen=True)
class Corpus:
    """Three sources of several files and parts, with records of no token, one token and many, and streams of them."""

    project: Project
    opened: dict[str, Dataset] = field(default_factory=dict)

    names = tuple(STREAMS)

    def __getitem__(self, name: str) -> Dataset:
        """The dataset of the stream ``name``, built when first asked for."""
        if name not in self.opened:
            extra, mixture, examples = STREAMS[name]
            sources = "".join(SOURCE.format(name=n, extra=extra) for n in "abc")
            tail = f"[mixture.train]\n{mixture}\n[examples]\nlength = 24\n{examples}\n"
            self.project.write("recipe.toml", HEAD + sources + tail)
            self.project.build(update=())
            self.opened[name] = self.project.open()
        return self.opened[name]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    project = Project(tmp_path_factory.mktemp("corpus"))
    for name, files in (("a", 7), ("b", 3), ("c", 2)):
        for n in range(files):
            lengths = [(n * 31 + k * 17 + ord(name)) % 45 * (k % 5 > 0) + k % 2 for k in range(30 + 25 * n)]
            project.jsonl(
                f"{name}/{n}.jsonl",
                [{"text": f"{name}{n}.{k} " * (m // 5) + "z" * (m % 5)} for k, m in enumerate(lengths)],
            )
    return Corpus(project)


Parts = Sequence[Mapping[str, tuple[Field, Sequence[Any]]]]
"""For each part, its columns: the field, and the value of each row."""


class Shelf:
    """Datasets published by hand, without a recipe: records of any columns, and splits, packings and orders of them."""

    def __init__(self, root: Path) -> None:
        self.store = Store.open(root, create=True)
        self._lengths: dict[Digest, list[np.ndarray]] = {}
        self._count = 0

    def records(self, parts: Parts, files: Sequence[int] | None = None) -> Digest:
        """Records; ``files``: the ordinal of the file that each part begins in."""
        found = self._publish("records", "records@1", [], parts, files)
        self._lengths[found] = [
            np.array([len(v) for v in part["input_ids"][1]], np.int64) if "input_ids" in part else np.zeros(0, np.int64)
            for part in parts
        ]
        return found

    def split(self, at: Digest, rows: Sequence[Sequence[int]], ends: Sequence[Sequence[int]] | None = None) -> Digest:
        """The ``rows`` of each part of the records ``at``; ``ends``: what it says of their tokens, if not the truth."""
        row, end = Field(name="row", dtype="int64"), Field(name="end", dtype="int64")
        lengths = self._lengths[at]
        told = ends or [
            np.cumsum(has[list(chosen)]).tolist() if len(has) else [0] * len(chosen)
            for has, chosen in zip(lengths, rows, strict=True)
        ]
        parts = [{"row": (row, chosen), "end": (end, e)} for chosen, e in zip(rows, told, strict=True)]
        found = self._publish("split", "split@1", [at], parts, tokens=[e[-1] if len(e) else 0 for e in told])
        self._lengths[found] = lengths
        return found

    def pack(
        self, at: Digest, bins: Sequence[Sequence[Sequence[int]]], length: int, tokens: Sequence[int] | None = None
    ) -> Digest:
        """Examples of the rows ``bins[part][i]``, records cut to ``length`` + 1 tokens."""
        row = Field(name="row", dtype="int64", shape=(None,))
        told = tokens or [
            sum(int(np.minimum(has[list(b)], length + 1).sum()) for b in part)
            for has, part in zip(self._lengths[at], bins, strict=True)
        ]
        return self._publish("pack", "fit@1", [at], [{"row": (row, part)} for part in bins], tokens=told)

    def deal(self, at: Digest, readers: int) -> Digest:
        """The view ``at`` interleaved."""
        return self._put(
            Derivation(kind="order", builder="interleave@1", arguments={"readers": readers}, inputs=[at.hex])
        )

    def dataset(self, *views: Digest, mixture: Mapping[str, Any] | None = None, **examples: Any) -> Dataset:
        """The dataset of equal shares of ``views``, not shuffled but for what ``examples`` says."""
        inputs = sorted(v.hex for v in views)
        arguments = {"weights": [1] * len(views), **(mixture or {})}
        mixed = self._put(Derivation(kind="mixture", builder="mixture@1", arguments=arguments, inputs=inputs))
        top = Derivation(
            kind="dataset",
            builder="dataset@1",
            arguments={"length": 8, "pack": "concat", "shuffle": "none", **examples},
            inputs={"train": mixed.hex},
        )
        return open_dataset(self._put(top).hex, store=self.store)

    def _put(self, derivation: Derivation) -> Digest:
        self.store.put_derivation(derivation.digest, derivation.canonical)
        return derivation.digest

    def _publish(
        self,
        kind: str,
        builder: str,
        inputs: Sequence[Digest],
        parts: Parts,
        files: Sequence[int] | None = None,
        tokens: Sequence[int] | None = None,
    ) -> Digest:
        self._count += 1
        made = []
        for part in parts:
            schema = Schema.of(*(f for f, _ in part.values()))
            columns = {name: _column(f, values) for name, (f, values) in part.items()}
            made.append((schema, self.store.write(schema, [Records(schema=schema, columns=columns)])))
        arguments = {"number": self._count}
        digest = self._put(Derivation(kind=kind, builder=builder, arguments=arguments, inputs=[i.hex for i in inputs]))
        n, names = len(made), made[0][1].elements
        elements = {c: np.array([p.elements[c] for _, p in made], np.int64) for c in names}
        if tokens is not None:
            elements = {"input_ids": np.array(tokens, np.int64)}
        self.store.publish_manifest(
            Manifest(
                derivation=digest,
                schema=made[0][0],
                actions=np.zeros((n, 32), np.uint8),
                contents=np.array([list(p.content.raw) for _, p in made], np.uint8),
                records=np.array([p.records for _, p in made], np.int64),
                elements=elements,
                longest={c: np.array([p.longest[c] for _, p in made], np.int64) for c in names},
                part_segments=np.arange(n + 1),
                segment_file=np.arange(n) if files is None else np.array(files, np.int64),
                segment_first=np.zeros(n, np.int64),
            )
        )
        return digest


def _column(f: Field, values: Sequence[Any]) -> Column:
    if f.dtype in OBJECTS:
        return Column(values=list(values))
    if not f.ragged:
        return Column(values=np.array(values, f.dtype).reshape(len(values), *(n or 0 for n in f.shape)))
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    flat = [v for value in values for v in value]
    return Column(values=np.array(flat, f.dtype).reshape(-1, *(n or 0 for n in f.shape[1:])), offsets=offsets)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf") / "store")
