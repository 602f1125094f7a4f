"""Compare: one thing of a store with what was published; each difference becomes a ``Damage`` with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import DsbuildError
from dsbuild.records import column_digest, part_digest
from dsbuild.store import manifest, realisation
from dsbuild.store.layout import Layout
from dsbuild.store.listing import BLOCK, Entry, Listing, of_file
from dsbuild.store.mark import inputs, rows
from dsbuild.store.objects import load_listing
from dsbuild.store.publish import read
from dsbuild.store.stored import StoredObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing that is not as published: its ``name`` for people, ``path`` in the store, what is wrong with it."""

    name: str
    path: str
    message: str


@dataclass(slots=True)
class Check:
    """Compares things of a store with what was published, and gathers ``damage``; ``seen``: bytes of objects."""

    layout: Layout
    quick: bool
    deep: bool
    damage: list[Damage] = field(default_factory=list)
    seen: int = 0

    def note(self, name: str, path: str, message: str) -> None:
        """Add one damage."""
        self.damage.append(Damage(name=name, path=self.layout.short(path), message=message))

    def attempt(self, name: str, path: str, look: Callable[[], Any]) -> None:
        """Call ``look``; what it complains of is damage."""
        try:
            look()
        except (DsbuildError, OSError, ValueError) as error:
            self.note(name, path, self._text(error))

    def _text(self, error: Exception) -> str:
        return str(error).replace(self.layout.root + "/", "")

    def derivation(self, digest: Digest) -> None:
        """Compare a derivation with its name."""
        path = self.layout.derivation(digest)
        self.attempt(f"derivation {digest.short}", path, lambda: inputs(self.layout, digest))

    def manifest(self, digest: Digest) -> tuple[set[bytes], dict[bytes, bytes]]:
        """(contents, action -> content) of a manifest."""
        path = self.layout.manifest(digest)
        contents: set[bytes] = set()
        actions: dict[bytes, bytes] = {}

        def look() -> None:
            found = manifest.find(self.layout, digest)
            if found is not None:
                contents.update(rows(found.contents))
                actions.update(zip(rows(found.actions), rows(found.contents), strict=True))

        self.attempt(f"manifest {digest.short}", path, look)
        return contents, actions

    def realisation(self, key: Digest, content: bytes | None) -> None:
        """``content``: what a manifest says that ``key`` gave."""
        name, path = f"realisation {key.short}", self.layout.realisation(key)

        def look() -> None:
            found = realisation.find(self.layout, key)
            if content is not None and found is None:
                raise ValueError("is gone, but a manifest has its part")
            if content is not None and found is not None and found.content.raw != content:
                raise ValueError(f"gives content {found.content.short}, but a manifest {Digest(content).short}")

        self.attempt(name, path, look)

    def object(self, content: Digest, *, needed: bool) -> None:
        """Compare all encodings of an object with their listings; ``needed``: a manifest has it."""
        name = f"object {content.short}"
        encodings = self.layout.encodings(content)
        if not encodings and needed:
            self.note(name, self.layout.contents(content), "is gone, but a manifest has it")
        for encoding in encodings:
            root = self.layout.encoding(content, encoding)
            try:
                found = load_listing(self.layout, content, encoding)
            except DsbuildError as error:
                self.note(name, f"{root}/files", self._text(error))
            else:
                self.seen += found.size
                self.files(name, root, found)

    def files(self, name: str, root: str, listed: Listing) -> None:
        """Compare the files of an object with its listing."""
        before = len(self.damage)
        blocks = read(f"{root}/blocks")
        if listed.blocks is not None and (blocks is None or of_bytes(Domain.FILE, blocks) != listed.blocks):
            self.note(name, f"{root}/blocks", "is gone" if blocks is None else "differs from what was published")
            blocks = None
        for path, entry in listed.entries.items():
            self.file(name, f"{root}/{path}", entry, blocks)
        expected = {*listed.entries, "files", *(["blocks"] if listed.blocks else [])}
        for path in sorted(set(_files(root)) - expected):
            self.note(name, f"{root}/{path}", "was not published with this object")
        if self.deep and len(self.damage) == before:
            self.attempt(name, root, lambda: _recompute(self.layout, listed.content))

    def file(self, name: str, path: str, entry: Entry, blocks: bytes | None) -> None:
        """Compare one file with its entry."""
        try:
            size = os.stat(path).st_size
            if size != entry.size:
                self.note(name, path, f"has {size} bytes, not the {entry.size} that were published")
            elif not self.quick and of_file(path) != entry.digest:
                self.note(name, path, _place(path, entry, blocks) + " differs from what was published")
        except FileNotFoundError:
            self.note(name, path, "is gone")
        except OSError as error:
            self.note(name, path, f"can't be read ({error.strerror})")


def _place(path: str, entry: Entry, blocks: bytes | None) -> str:
    """Which blocks of a file differ."""
    if entry.first < 0 or blocks is None:
        return "the file"
    found = []
    with open(path, "rb") as file:
        for i in range(entry.blocks):
            at = 32 * (entry.first + i)
            if of_bytes(Domain.FILE, file.read(BLOCK)).raw != blocks[at : at + 32]:
                found.append(i)
    if not found:
        return "the file"
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"block {found[0]} (from byte {found[0] * BLOCK}){more}"


def _files(root: str) -> Iterable[str]:
    for directory, _, names in os.walk(root):
        for name in names:
            yield f"{directory}/{name}"[len(root) + 1 :]


def _recompute(layout: Layout, content: Digest) -> None:
    """Compute the content digest anew from the columns."""
    found = StoredObject(layout, content, "never")
    columns = {f.name: column_digest(f, *found.column(f.name)) for f in found.schema.fields}
    digest = part_digest(found.records, columns)
    if digest != content:
        raise ValueError(f"its columns have content {digest.short}")
