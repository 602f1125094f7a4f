"""Work: what a worker does with one task. Everything it publishes is whole, so it can die at any point."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dsbuild import registry
from dsbuild.build import chain
from dsbuild.build.packing import pack
from dsbuild.build.plan import realisation
from dsbuild.build.purity import guarded
from dsbuild.build.selecting import select
from dsbuild.build.tasks import (
    Call,
    CutDone,
    CutTask,
    PackTask,
    PartDone,
    RecordsTask,
    Segment,
    SelectTask,
    SourceFile,
    Task,
    signature,
)
from dsbuild.digest import Digest
from dsbuild.errors import BuildError, Diagnostic, Where
from dsbuild.interfaces import Handler, RecordError, Resources, Skip, Tokenizer
from dsbuild.recipe.code import UserCode
from dsbuild.records import Column, Records
from dsbuild.schema import KEY, RECORD, SEGMENT_BITS, Field, Schema
from dsbuild.store import Realisation, Store

SKIPS_LISTED = 1000
"""Skipped records beyond this number a part are counted, not listed."""


@dataclass(slots=True)
class _Live:
    """What a worker keeps between tasks: the open store, loaded tokenizers, built handlers."""

    store: Store | None = None
    tokenizers: dict[str, Tokenizer] = field(default_factory=dict)
    stages: dict[bytes, chain.Stage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """A callable for executors: pickled once a worker.

    ``tokenizers``: fingerprint -> (file, its id); ``code``: user Python by digest; ``data``: the bytes of declared data
    files by name.
    """

    root: Path
    tokenizers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    code: Mapping[str, UserCode] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)
    live: _Live = field(default_factory=_Live, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Work, (self.root, self.tokenizers, self.code, self.data)

    def __call__(self, task: Task) -> CutDone | PartDone:
        """The result of ``task``. Raises ``BuildError`` and the store's errors."""
        if isinstance(task, CutTask):
            return self._cut(task)
        if isinstance(task, SelectTask):
            return select(self._store, task)
        if isinstance(task, PackTask):
            return pack(self._store, task)
        return self._records(task)

    @property
    def _store(self) -> Store:
        if self.live.store is None:
            self.live.store = Store.open(self.root)
        return self.live.store

    def _cut(self, task: CutTask) -> CutDone:
        reader = registry.reader(task.reading.reader)
        _check_unchanged(task.file)
        table = reader.split(task.file.path, task.rule, task.reading.arguments)
        _check_unchanged(task.file)
        return CutDone(key=task.key, table=table)

    def _records(self, task: RecordsTask) -> PartDone:
        try:
            return self._make(task)
        except BuildError as error:
            if error.kind != "impure":
                raise
            entries = ", ".join(str(c.arguments["entry"]) for c in task.calls if c.name == "python")
            told = [replace(d, message=f"{task.label}: {entries}: {d.message}") for d in error.diagnostics]
            raise BuildError(diagnostics=told) from None

    def _make(self, task: RecordsTask) -> PartDone:
        counter = _Counter()
        skips = _Skips(task)
        stages = [self._stage(call) for call in task.calls]
        asked: list[Digest] = []

        def seen(rest: Sequence[Call], content: Digest) -> Realisation | None:
            if task.check:
                return None
            key = chain.action_key(rest, task.schema, content)
            known = realisation(self._store, key)
            if known is not None and self._store.claim(known.content):
                return known
            asked.append(key)
            return None

        def complain(records: Records, error: RecordError, skip: bool) -> bool:
            return skips.handler(records, error, task, skip)

        counted = [chain.Stage(call=s.call, handler=counter.counting(s), user=s.user) for s in stages]
        result = chain.run(counted, self._blocks(task, skips), complain, seen)
        if isinstance(result, Realisation):
            made, cutoff = result, True
        else:
            made, cutoff = self._write(task, result), False
        for segment in task.segments:
            _check_unchanged(segment.file)
        if not task.check:
            self._realise(task, made, asked, skips)
        return PartDone(
            action=task.action,
            content=made.content,
            records=made.records,
            elements=made.elements,
            longest=made.longest,
            skipped=tuple(skips.listed),
            skipped_count=skips.count,
            cutoff=cutoff,
            calls=counter.calls,
        )

    def _realise(self, task: RecordsTask, made: Realisation, asked: list[Digest], skips: _Skips) -> None:
        """Record what the part became, and what the rest of its chain makes of the contents met on the way.

        The rest is recorded without skips, since those belong to the files of this part; so it is recorded only where
        no handler skipped anything.
        """
        bare = replace(made, skipped=0, skips=())
        for key in asked if not skips.by_handlers else ():
            self._store.realise(key, bare)
        skips.listed.sort(key=lambda s: (s.place.rpartition(": ")[0], s.record))
        listed = tuple({"record": s.record, "place": s.place, "reason": s.reason} for s in skips.listed)
        self._store.realise(task.action, replace(bare, skipped=skips.count, skips=listed))

    def _write(self, task: RecordsTask, blocks: Iterator[Records]) -> Realisation:
        schema = Schema.of(*task.schema.fields, Field(name=KEY, dtype="uint64"), Field(name=RECORD, dtype="int64"))

        def stored() -> Iterator[Records]:
            for block in blocks:
                if len(block):
                    try:
                        yield chain.store_form(block, task.schema)
                    except RecordError as error:
                        raise _located(block, error, task) from None

        published = self._store.write(schema, stored())
        return Realisation(
            content=published.content,
            records=published.records,
            elements=published.elements,
            longest=published.longest,
        )

    def _blocks(self, task: RecordsTask, skips: _Skips) -> Iterator[Records]:
        if task.content is not None:
            stored = self._store.object(task.content)
            yield chain.unpack_fields(stored.records_view(stored.schema.names))
            return
        assert task.reading is not None
        reader = registry.reader(task.reading.reader)
        for number, segment in enumerate(task.segments):
            _check_unchanged(segment.file)
            skipped: list[Skip] | None = [] if task.reading.skip else None
            for block in reader.read(
                segment.file.path,
                segment.cut,
                segment.context,
                task.reading.arguments,
                columns=task.reading.wanted,
                skipped=skipped,
            ):
                origin = np.asarray(block[RECORD].values) + (number << SEGMENT_BITS)
                yield block.replace({RECORD: (Field(name=RECORD, dtype="int64"), Column(values=origin))})
            for skip in skipped or ():
                skips.add(
                    replace(skip, record=segment.cut.first + skip.record, place=f"{segment.file.name}: {skip.place}")
                )

    def _stage(self, call: Call) -> chain.Stage:
        """A handler of ``call``; made afresh for each part if it is user Python, whose modules may keep state."""
        name = call.name
        key = chain.action_key([call], Schema(fields=()), Digest(bytes(32))).raw
        if key not in self.live.stages or name == "python":
            arguments = call.arguments
            code = arguments.get("code")
            resources = Resources(
                tokenizer=lambda: self._tokenizer(str(arguments["tokenizer"])),
                modules=self.code[code].modules if code else {},
                lines=self.code[code].lines if code else {},
                data={n: self.data[n] for n in arguments.get("reads", {})} if code else {},
            )
            handler = registry.handler(name)(arguments, resources)  # type: ignore[call-arg]
            self.live.stages[key] = chain.Stage(call=call, handler=handler, user=name == "python")
        return self.live.stages[key]

    def _tokenizer(self, fingerprint: str) -> Tokenizer:
        if fingerprint not in self.live.tokenizers:
            path, text = self.tokenizers[fingerprint]
            file = text.removeprefix("b3:")
            expected = Digest.parse(fingerprint)
            known = (Digest.parse(file), expected) if text != file else None
            self.live.tokenizers[fingerprint] = registry.load_tokenizer(path, Path(), expected, known)
        return self.live.tokenizers[fingerprint]


@dataclass(slots=True)
class _Counter:
    """Counts the records that each handler saw, so that tests can see what a change cost."""

    calls: dict[str, int] = field(default_factory=dict)

    def counting(self, stage: chain.Stage) -> Handler:
        return _Counted(stage.handler, stage.call.builder, self.calls, stage.user)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Counted:
    inner: Handler
    name: str
    calls: dict[str, int]
    user: bool

    def apply(self, records: Records) -> Records:
        self.calls[self.name] = self.calls.get(self.name, 0) + len(records)
        if not self.user:
            return self.inner.apply(records)
        with guarded():
            return self.inner.apply(records)


@dataclass(slots=True)
class _Skips:
    """What was left out of a part: all counted, the first ones listed."""

    task: RecordsTask
    listed: list[Skip] = field(default_factory=list)
    count: int = 0
    by_handlers: int = 0

    def add(self, skip: Skip) -> None:
        self.count += 1
        if len(self.listed) < SKIPS_LISTED:
            self.listed.append(skip)

    def handler(self, records: Records, error: RecordError, task: RecordsTask, skip: bool) -> bool:
        """Skips the record if ``skip``; else raises the error with its place."""
        located = _located(records, error, task)
        if not skip or task.reading is None:
            raise located from None
        self.by_handlers += 1
        origin = int(records[RECORD].values[error.row])
        segment = task.segments[origin >> SEGMENT_BITS]
        number = segment.cut.first + (origin & ((1 << SEGMENT_BITS) - 1))
        place = _locate(task, segment, origin & ((1 << SEGMENT_BITS) - 1))
        self.add(Skip(record=number, place=f"{segment.file.name}: {place}", reason=error.message))
        return True


def _located(records: Records, error: RecordError, task: RecordsTask) -> BuildError:
    """The error of a handler with the file and record that it is about."""
    where: Where | None = None
    place = task.label
    if RECORD in records.schema and error.row < len(records) and task.segments and task.reading is not None:
        origin = int(records[RECORD].values[error.row])
        segment = task.segments[origin >> SEGMENT_BITS]
        number = origin & ((1 << SEGMENT_BITS) - 1)
        found = _locate(task, segment, number)
        line = re.fullmatch(r"line (\d+)", found)
        where = Where(path=str(segment.file.path), line=int(line[1])) if line else Where(path=str(segment.file.path))
        place = f"{segment.file.name}, {found}"
    hint = error.hint
    if hint is None and task.reading is not None and not task.reading.skip:
        hint = 'mend the record, or set on_error = "skip" on the source to leave such records out and list them'
    return BuildError(
        diagnostics=[Diagnostic(message=f"{place}: {error.message}", kind=error.kind, where=where, hint=hint)]
    )


def _locate(task: RecordsTask, segment: Segment, number: int) -> str:
    assert task.reading is not None
    reader = registry.reader(task.reading.reader)
    return reader.locate(segment.file.path, segment.cut, segment.context, task.reading.arguments, number)


def _check_unchanged(file: SourceFile) -> None:
    """A file that was replaced or written since its content was checked must not be stored under the old key."""
    try:
        now = signature(file.path)
    except OSError as error:
        raise BuildError(
            f"{file.name}: {error.strerror or error} while it was being built",
            kind="source-changed",
            where=Where(path=str(file.path)),
            hint="put the file back, or accept the change with 'dsbuild lock --update'",
        ) from None
    if now != file.signature:
        raise BuildError(
            f"{file.name}: changed while it was being built ({file.signature[0]} bytes before, {now[0]} now)",
            kind="source-changed",
            where=Where(path=str(file.path)),
            hint="build again when nothing writes to it; what was read of it since then was not published",
        )
