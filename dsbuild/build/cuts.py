"""Cuts: from the files of a source to segments of parts; planning reads no data twice.

The cut table of a file is a record in the store keyed by the file's content, so it is made once wherever the file is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsbuild import canon
from dsbuild.build.tasks import CutTask, Reading, Segment, SourceFile
from dsbuild.digest import Digest, Domain, of_value
from dsbuild.errors import CorruptError
from dsbuild.graph.derivation import Derivation
from dsbuild.interfaces import Cut, CutRule, CutTable, Reader
from dsbuild.order.group import groups
from dsbuild.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A ``source`` derivation made ready: its reader, rule, arguments, and files in order."""

    reader: Reader
    rule: CutRule
    reading: Reading
    files: Sequence[SourceFile]

    def key(self, file: SourceFile) -> Digest:
        """The name of a file's cut table: its content, suffixes (a reader may go by them), reader, arguments, rule."""
        return of_value(
            Domain.CUTS,
            {
                "file": file.content.hex,
                "suffixes": "".join(file.path.suffixes[-2:]).lower(),
                "reader": f"{self.reader.name}@{self.reader.version}",
                "arguments": self.reading.arguments,
                "rule": {"version": self.rule.version, "part_bytes": self.rule.part_bytes},
            },
        )

    def table(self, file: SourceFile, store: Store) -> CutTable | None:
        """The cut table of ``file``, None if it must be made by a task."""
        if self.reader.whole(file.path, file.signature[0], self.rule):
            return CutTable(cuts=(Cut(start=0, stop=None, first=0, content=file.content),))
        key = self.key(file)
        data = store.cut_table(key)
        return None if data is None else parse_table(data, key)

    def missing(self, store: Store) -> Iterator[CutTask]:
        """A task for each file that has no cut table yet."""
        seen = set()
        for file in self.files:
            key = self.key(file)
            if key not in seen and self.table(file, store) is None:
                seen.add(key)
                yield CutTask(key=key, file=file, reading=self.reading, rule=self.rule)

    def parts(self, store: Store) -> Iterator[tuple[Segment, ...]]:
        """The segments of each part, in order; every cut table must be there."""
        sizes = [f.signature[0] for f in self.files]
        heads = [int.from_bytes(f.content.raw[:8], "little") for f in self.files]
        for first, last in groups(sizes, heads, small=self.rule.small, group=self.rule.group):
            segments = [s for file in self.files[first:last] for s in self._segments(file, store)]
            if last - first == 1:
                yield from ((s,) for s in segments)
            elif segments:
                yield tuple(segments)

    def _segments(self, file: SourceFile, store: Store) -> Iterator[Segment]:
        table = self.table(file, store)
        assert table is not None
        for cut in table.cuts:
            yield Segment(file=file, cut=cut, context=table.context)


def encode_table(table: CutTable) -> bytes:
    """The stored form of a cut table."""
    cuts = [[c.start, -1 if c.stop is None else c.stop, c.first, c.content.hex] for c in table.cuts]
    return canon.encode({"version": 1, "cuts": cuts, "context": table.context})


def parse_table(data: bytes, key: Digest) -> CutTable:
    """The cut table of stored bytes. Raises ``CorruptError`` for other bytes."""
    try:
        value: Any = canon.decode(data)
        cuts = tuple(
            Cut(start=int(a), stop=None if b == -1 else int(b), first=int(n), content=Digest.parse(c))
            for a, b, n, c in value["cuts"]
        )
        context: Mapping[str, Any] = dict(value["context"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"cut table {key.short}: {error}", kind="corrupt", hint="delete the file; the next build makes it again"
        ) from None
    return CutTable(cuts=cuts, context=context)


def source_of(
    derivation: Derivation, reader: Reader, files: Sequence[SourceFile], wanted: frozenset[str] | None
) -> Source:
    """A ``source`` derivation with the files that its inputs name, found on this machine."""
    arguments = {a.name: a.default for a in reader.arguments if a.default is not None}
    arguments |= derivation.arguments.get("read", {})
    cut = derivation.arguments["cut"]
    return Source(
        reader=reader,
        rule=CutRule(part_bytes=cut["part_bytes"], version=cut["version"]),
        reading=Reading(
            reader=reader.name,
            arguments=arguments,
            skip=derivation.arguments.get("on_error") == "skip",
            wanted=wanted,
        ),
        files=files,
    )
