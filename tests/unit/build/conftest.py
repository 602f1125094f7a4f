"""A graph by hand over the records of a recipe: what mixtures see is given as derivations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest

from dsbuild.build import BuildReport, InlineExecutor, Session, World, build
from dsbuild.digest import Digest
from dsbuild.graph.derivation import Derivation, Graph

HEAD = 'dsbuild = 1\nname = "r"\n[tokenizer]\nfile = "bytes"\n'
SOURCE = '[source.a]\nfiles = "data/*.jsonl"\npart_bytes = 4096\nhandlers = [{ use = "tokenize" }]\n'
TAIL = "[mixture.train]\nweights = { a = 1 }\n[examples]\nlength = 8\n"


class Stack:
    """A project whose records are built, with nodes put on them by hand."""

    def __init__(self, project: Any) -> None:
        self.project = project
        project.write("recipe.toml", HEAD + SOURCE + TAIL)

    def files(self, texts: Iterable[Iterable[str]]) -> None:
        for number, rows in enumerate(texts):
            self.project.jsonl(f"data/{number:02}.jsonl", [{"text": t} for t in rows])

    def session(self) -> Session:
        return self.project.prepare(update=())

    def world(self, *nodes: Derivation, examples: dict[str, Any] | None = None) -> World:
        """``nodes`` one on the other over the records; the last is the view of the mixture ``train``."""
        session = self.session()
        at = session.instance.outputs["a"]
        derivations = dict(session.instance.graph.derivations)
        labels = dict(session.instance.graph.labels)
        for node in nodes:
            node = Derivation(kind=node.kind, builder=node.builder, arguments=node.arguments, inputs=[at.hex])
            at = node.digest
            derivations[at] = node
            labels[at] = "source.a/train"
        mixture = Derivation(kind="mixture", builder="mixture@1", arguments={"weights": [1]}, inputs=[at.hex])
        arguments = {"length": 8, "pack": "fit", "shuffle": "none", **(examples or {})}
        top = Derivation(kind="dataset", builder="dataset@1", arguments=arguments, inputs={"train": mixture.digest.hex})
        derivations |= {mixture.digest: mixture, top.digest: top}
        full = Graph(derivations=derivations, labels=labels, output=top.digest)
        kept = {d: derivations[d] for d in full.closure(top.digest)}
        graph = Graph(derivations=kept, labels=labels, output=top.digest)
        return World(graph=graph, store=self.project.store, files=session.files)

    def build(self, world: World, **options: Any) -> BuildReport:
        return build(
            world.graph,
            world.store,
            world.files,
            options.pop("executor", InlineExecutor()),
            self.session().work(world.store),
            **options,
        )

    def node(self, world: World, kind: str) -> Digest:
        return next(d for d, node in world.graph.derivations.items() if node.kind == kind)

    def column(self, world: World, kind: str, name: str) -> list[list[Any]]:
        """The values of a column of every part of the node of ``kind``; ragged ones as lists."""
        manifest = world.store.manifest(self.node(world, kind))
        assert manifest is not None
        found = []
        for part in range(len(manifest)):
            values, offsets = world.store.object(manifest.content(part)).column(name)
            if offsets is None:
                found.append(values.tolist())
            else:
                found.append([values[a:b].tolist() for a, b in pairwise(offsets.tolist())])
        return found


@pytest.fixture
def stack(project: Any) -> Callable[[Iterable[Iterable[str]]], Stack]:
    """Makes a ``Stack`` over files of texts."""

    def make(texts: Iterable[Iterable[str]]) -> Stack:
        found = Stack(project)
        found.files(texts)
        return found

    return make
