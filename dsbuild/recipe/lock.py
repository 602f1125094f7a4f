"""Lock: what the outside world was. Input files, tokenizer, data files and classes of libraries; nothing else.

With it a recipe's hash needs no data. It holds no time, host or user, and only the names that the recipe wrote.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from dsbuild.digest import Digest
from dsbuild.errors import LockError
from dsbuild.recipe.types import Recipe, SourceSpec

BUILTIN = "builtin:bytes@1"
"""The id of the tokenizer that is no file."""


FORMS = (".gz", ".zst", ".tsv")
"""Suffixes that readers go by: the same bytes mean something else under another one."""


def source_id(digest: Digest, name: str) -> str:
    """What a source derivation says of a file: its content, and its form where the name decides one."""
    suffixes = name.rpartition("/")[2].lower().split(".")[1:][-2:]
    return f"b3:{digest.hex}" + "".join(f".{s}" for s in suffixes if f".{s}" in FORMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource:
    """A source that reads files: its ``patterns`` as the recipe listed them, which orders its files."""

    name: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """A file of ``source``, found by ``pattern``: its ``name`` as written, its BLAKE3 ``id``, its ``size`` in bytes."""

    source: str
    pattern: str
    name: str
    id: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTokenizer:
    """``name``: file as written; ``id``: ``b3:…`` or ``BUILTIN``; ``size``: number of ids; ``tokens``: ids by text."""

    name: str
    id: str
    fingerprint: Digest
    size: int
    tokens: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedData:
    """A data file that a handler ``reads``."""

    name: str
    id: Digest
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedLibrary:
    """A library that decides bytes, and its class: versions of one class give the same bytes."""

    name: str
    version_class: str


NamedEntry = TypeVar("NamedEntry", LockedSource, LockedData, LockedLibrary)
Entry = LockedSource | LockedFile | LockedTokenizer | LockedData | LockedLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """All entries, each tuple sorted by names. Make one with ``Lock.of``."""

    sources: tuple[LockedSource, ...] = ()
    entries: tuple[LockedFile, ...] = ()
    tokenizer: LockedTokenizer | None = None
    data_files: tuple[LockedData, ...] = ()
    library_classes: tuple[LockedLibrary, ...] = ()
    _keys: list[tuple[str, str]] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Lock:
        """The lock of ``entries`` in any order. Raises ``ValueError`` naming the second of two for one thing."""
        files = sorted((e for e in entries if isinstance(e, LockedFile)), key=lambda e: (e.source, e.name))
        keys = [(e.source, e.name) for e in files]
        for before, after in pairwise(keys):
            if before == after:
                raise ValueError(f"two entries for the file {after[1]} of source {after[0]}")
        tokenizers = [e for e in entries if isinstance(e, LockedTokenizer)]
        if len(tokenizers) > 1:
            raise ValueError(f"two entries for the tokenizer: {tokenizers[0].name} and {tokenizers[1].name}")
        return cls(
            sources=_by_name([e for e in entries if isinstance(e, LockedSource)], "source"),
            entries=tuple(files),
            tokenizer=tokenizers[0] if tokenizers else None,
            data_files=_by_name([e for e in entries if isinstance(e, LockedData)], "data file"),
            library_classes=_by_name([e for e in entries if isinstance(e, LockedLibrary)], "library"),
            _keys=keys,
        )

    def all(self) -> tuple[Entry, ...]:
        """Every entry."""
        tokenizer = () if self.tokenizer is None else (self.tokenizer,)
        return (*self.entries, *self.sources, *tokenizer, *self.data_files, *self.library_classes)

    def source(self, name: str) -> LockedSource | None:
        """The entry of the source ``name``."""
        return next((s for s in self.sources if s.name == name), None)

    def of_source(self, name: str) -> tuple[LockedFile, ...]:
        """The files of a source, by name."""
        first = bisect_left(self._keys, (name, ""))
        return self.entries[first : bisect_right(self._keys, (name + "\0", ""))]

    def in_order(self, name: str) -> tuple[LockedFile, ...]:
        """The files of a source in the order of its records: patterns as listed, then names by code point."""
        source = self.source(name)
        place = {p: n for n, p in enumerate(source.patterns)} if source else {}
        files = self.of_source(name)
        return files if len(place) < 2 else tuple(sorted(files, key=lambda f: place.get(f.pattern, len(place))))

    def files(self, name: str, patterns: Sequence[str]) -> tuple[LockedFile, ...]:
        """The files of source ``name`` in order. Raises ``LockError`` if it was locked with other patterns."""
        source = self.source(name)
        if source is None or source.patterns != tuple(patterns):
            was = "is not in the lock" if source is None else f"was locked as {', '.join(source.patterns)}"
            raise LockError(
                f"source.{name}: {was}, and the recipe says {', '.join(patterns)}",
                kind="lock-mismatch",
                hint=f"'dsbuild lock RECIPE --update {name}' looks at the files and accepts them",
            )
        return self.in_order(name)

    def data(self) -> dict[str, str]:
        """``b3:…`` of each data file, by its name in the recipe."""
        return {entry.name: f"b3:{entry.id.hex}" for entry in self.data_files}

    def libraries(self) -> dict[str, str]:
        """The class of each library, by name."""
        return {entry.name: entry.version_class for entry in self.library_classes}

    def covers(self, source: SourceSpec) -> bool:
        """Whether the lock speaks of all that ``source`` names, so that hashing it needs nothing else."""
        locked = self.source(source.name)
        if source.files and (locked is None or locked.patterns != source.files):
            return False
        data, libraries = self.data(), self.libraries()
        users = [h for h in source.handlers if h.python is not None or h.use == "keep"]
        if users and "unicode" not in libraries:
            return False
        return all(set(h.reads) <= set(data) and set(h.requires) <= set(libraries) for h in users)

    def covers_recipe(self, recipe: Recipe) -> bool:
        """Whether the lock speaks of all that ``recipe`` names: tokenizer and its tokens, and every source."""
        spec = recipe.tokenizer
        if spec is not None:
            tokens = {t for t in (spec.eos, spec.bos, spec.pad) if t is not None}
            if self.tokenizer is None or self.tokenizer.name != spec.file or not tokens <= set(self.tokenizer.tokens):
                return False
        return all(self.covers(source) for source in recipe.sources.values())


def _by_name(entries: list[NamedEntry], kind: str) -> tuple[NamedEntry, ...]:
    found: dict[str, NamedEntry] = {}
    for entry in entries:
        if entry.name in found:
            raise ValueError(f"two entries for the {kind} {entry.name}")
        found[entry.name] = entry
    return tuple(found[name] for name in sorted(found))


def lock_path(recipe: Path) -> Path:
    """The lock of the recipe at ``recipe``: ``STEM.lock`` beside it."""
    return recipe.with_name(recipe.stem + ".lock")
