"""Plan: which parts a node has, and which of them are not there yet. Reads records of the store, never data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dsbuild import registry
from dsbuild.build import chain
from dsbuild.build.cuts import Source, source_of
from dsbuild.build.tasks import Call, PartDone, PartTask, RecordsTask, Segment, SourceFile
from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.graph.derivation import ON_ERROR, Derivation, Graph, parse
from dsbuild.graph.flow import needed_first
from dsbuild.interfaces import Resources
from dsbuild.recipe import Found
from dsbuild.schema import FIELDS, Schema
from dsbuild.store import Manifest, Realisation, Store

STORED = ("records", "split", "pack")
"""The kinds of derivations that have parts in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """A run of fused handlers over one base: a ``source`` or stored ``records`` derivation."""

    base: Digest
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What planning looks at: the graph, the store, and the files by content."""

    graph: Graph
    store: Store
    files: Mapping[str, Found]

    def derivation(self, digest: Digest) -> Derivation:
        """A derivation of the graph, or of another recipe that the store has. Raises ``NotFoundError``."""
        if digest in self.graph.derivations:
            return self.graph.derivations[digest]
        data = self.store.derivation(digest)
        if data is None:
            raise NotFoundError(
                f"drv:{digest.hex}: no such derivation in the store",
                kind="not-found",
                hint="build the recipe that it belongs to into this store first",
            )
        return parse(data)

    def strands(self, records: Digest) -> list[Strand]:
        """What a ``records`` derivation is made of, in order."""

        def walk(at: Digest) -> list[Strand]:
            derivation = self.derivation(at)
            if derivation.kind in ("source", "records"):
                return [Strand(base=at, calls=())]
            found = [s for reference in derivation.references() for s in walk(reference)]
            if derivation.kind == "handler":
                call = _call(derivation)
                found = [Strand(base=s.base, calls=(*s.calls, call)) for s in found]
            return found

        (first,) = self.derivation(records).references()
        return walk(first)

    def source(self, strand: Strand, schema: Schema, first: int = 0) -> Source:
        """The source of ``strand`` with its files, numbered from ``first``.

        Raises ``NotFoundError`` for a file that is not here.
        """
        derivation = self.derivation(strand.base)
        files = []
        for ordinal, text in enumerate(derivation.inputs, first):
            if text not in self.files:
                raise NotFoundError(f"no file with content {text} is here", kind="no-such-file")
            files.append(_source_file(ordinal, Digest.parse(text[3:67]), self.files[text]))
        reader = registry.reader(derivation.name)
        return source_of(derivation, reader, files, _wanted(strand, schema))


def _call(derivation: Derivation) -> Call:
    arguments = dict(derivation.arguments)
    skip = arguments.pop(ON_ERROR, None) == "skip"
    return Call(builder=derivation.builder, arguments=arguments, skip=skip)


def _wanted(strand: Strand, schema: Schema) -> frozenset[str] | None:
    """The columns that a reader must make for ``strand``, None = all: a function of what the action key has."""
    effects = [registry.handler(c.name)(c.arguments, Resources()).effect() for c in strand.calls]  # type: ignore[call-arg]
    return needed_first(effects, None if FIELDS in schema else frozenset(schema.names))


def _source_file(ordinal: int, content: Digest, found: Found) -> SourceFile:
    return SourceFile(
        ordinal=ordinal, name=found.name, path=Path(found.path), content=content, signature=found.signature
    )


@dataclass(slots=True, kw_only=True)
class NodePlan:
    """The parts of one node in order: what is known of each, and the tasks for the rest."""

    digest: Digest
    schema: Schema
    actions: list[Digest] = field(default_factory=list)
    known: dict[int, Realisation | PartDone] = field(default_factory=dict)
    tasks: list[PartTask] = field(default_factory=list)
    segments: list[tuple[Segment, ...]] = field(default_factory=list)
    everything: list[PartTask] = field(default_factory=list)

    def add(self, action: Digest, segments: tuple[Segment, ...], task: PartTask) -> None:
        """One more part, not looked up yet."""
        self.actions.append(action)
        self.segments.append(segments)
        self.everything.append(task)

    def look(self, store: Store) -> None:
        """Find the parts that are known: those with a realisation whose object is there; the rest are tasks.

        Comes after ``store.partial`` has protected the action keys, so that no collector takes what is found.
        """
        for number, (action, task) in enumerate(zip(self.actions, self.everything, strict=True)):
            made = realisation(store, action)
            if made is not None and store.has_object(made.content):
                self.known[number] = made
            else:
                self.tasks.append(task)

    def manifest(self) -> Manifest:
        """The manifest; every part must be known."""
        made = [self.known[i] for i in range(len(self.actions))]
        columns = sorted({name for m in made for name in m.elements})
        segments = [(s.file.ordinal, s.cut.first) for part in self.segments for s in part]
        ends = np.cumsum([0, *(len(part) for part in self.segments)], dtype=np.int64)
        return Manifest(
            derivation=self.digest,
            schema=self.schema,
            actions=_rows(self.actions),
            contents=_rows([m.content for m in made]),
            records=np.array([m.records for m in made], np.int64),
            elements={c: np.array([m.elements.get(c, 0) for m in made], np.int64) for c in columns},
            longest={c: np.array([m.longest.get(c, 0) for m in made], np.int64) for c in columns},
            part_segments=ends,
            segment_file=np.array([file for file, _ in segments], np.int64),
            segment_first=np.array([first for _, first in segments], np.int64),
        )


def realisation(store: Store, action: Digest) -> Realisation | None:
    """The realisation of ``action``; a damaged one is none, and the part is made again."""
    try:
        return store.realisation(action)
    except CorruptError:
        return None


def _rows(digests: Sequence[Digest]) -> np.ndarray:
    return np.frombuffer(b"".join(d.raw for d in digests), np.uint8).reshape(len(digests), 32)


def contents_of(manifest: Manifest) -> list[Digest]:
    """Content digests of the parts, in order."""
    return [manifest.content(part) for part in range(len(manifest))]


def plan_records(world: World, digest: Digest) -> NodePlan:
    """The plan of a ``records`` node; its sources' cut tables and its bases' manifests must be there."""
    derivation = world.derivation(digest)
    schema = Schema.from_json(derivation.arguments["columns"])
    plan = NodePlan(digest=digest, schema=schema)
    label = world.graph.label(digest)
    first = 0
    for strand in world.strands(digest):
        for content, segments, task in _parts(world, digest, strand, schema, label, first):
            action = chain.action_key(strand.calls, schema, content)
            plan.add(action, segments, _numbered(task, action, len(plan.actions)))
        first += len(world.derivation(strand.base).inputs)
    return plan


def _numbered(task: RecordsTask, action: Digest, number: int) -> RecordsTask:
    return replace(task, action=action, number=number, label=f"{task.label}, part {number}")


def _parts(
    world: World, digest: Digest, strand: Strand, schema: Schema, label: str, first: int
) -> Iterator[tuple[Digest, tuple[Segment, ...], RecordsTask]]:
    nothing = Digest(bytes(32))
    if world.derivation(strand.base).kind == "records":
        for content in contents_of(manifest_of(world, strand.base)):
            yield (
                content,
                (),
                RecordsTask(
                    node=digest,
                    number=0,
                    action=nothing,
                    schema=schema,
                    calls=strand.calls,
                    content=content,
                    label=label,
                ),
            )
        return
    source = world.source(strand, schema, first)
    reader = world.derivation(strand.base).builder
    arguments = {k: v for k, v in source.reading.arguments.items() if v is not None}
    if source.reading.skip:
        arguments["on_error"] = "skip"
    for segments in source.parts(world.store):
        content = chain.input_digest(reader, arguments, [(s.cut.content, s.context) for s in segments])
        size = sum(_bytes(s) for s in segments)
        yield (
            content,
            segments,
            RecordsTask(
                node=digest,
                number=0,
                action=nothing,
                schema=schema,
                calls=strand.calls,
                reading=source.reading,
                segments=segments,
                label=label,
                bytes=size,
            ),
        )


def _bytes(segment: Segment) -> int:
    """About how many bytes of its file a segment stands for: cuts of one file are of like size, whatever their unit."""
    size = segment.file.signature[0]
    if segment.cut.stop is None or segment.cut.stop - segment.cut.start > size:
        return size
    return segment.cut.stop - segment.cut.start


def manifest_of(world: World, digest: Digest) -> Manifest:
    """The manifest of a node that must be built. Raises ``NotFoundError``."""
    manifest = world.store.manifest(digest)
    if manifest is None:
        raise NotFoundError(
            f"{world.graph.label(digest)} ({digest.short}): not built in this store",
            kind="not-built",
            hint="build the recipe that it belongs to first",
        )
    return manifest


def bases(world: World, digest: Digest) -> Sequence[Digest]:
    """The nodes of this graph that must be built before ``digest`` can be planned."""
    derivation = world.derivation(digest)
    found = [s.base for s in world.strands(digest)] if derivation.kind == "records" else derivation.references()
    return [b for b in found if b in world.graph.derivations and world.graph.derivations[b].kind in STORED]
