"""Roots: names that keep a derivation and all it needs from being collected, each with numbered generations."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.store.disk import Disk, refusals
from dsbuild.store.layout import Layout
from dsbuild.store.locks import builders
from dsbuild.store.publish import create, read, replace
from dsbuild.store.sealed import member, seal, unseal

_CURRENT = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Generation ``generation`` of root ``name``; ``current``: whether the name stands for this one."""

    name: str
    generation: int
    digest: Digest
    current: bool


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots of a store. All generations protect what they name, until the root is removed."""

    layout: Layout
    disk: Disk

    def add(self, name: str, digest: Digest) -> int:
        """Let ``name`` stand for ``digest``; its generation. No new one where nothing changes.

        Raises ``NotFoundError`` for a derivation that is not in the store, ``RecipeError`` for a bad name.
        """
        if not os.path.exists(self.layout.derivation(digest)):
            raise NotFoundError(
                f"derivation {digest.short}: not in the store {self.layout.root}, so it can't be a root",
                kind="not-found",
                hint="'dsbuild build' puts it there",
            )
        directory = self.layout.generations(name)
        while True:
            found = self.generations(name)
            for root in found:
                if root.digest == digest and (root.current or root is found[-1]):
                    self._set_current(name, root.generation, found[-1].generation)
                    return root.generation
            generation = found[-1].generation + 1 if found else 1
            data = _render(name, generation, digest)
            if not found:
                if self._begin(directory, data):
                    return generation
            elif create(self.layout, self.disk, f"{directory}/{generation}", data, lambda _: True) == data:
                self._set_current(name, generation, generation)
                return generation

    def _begin(self, directory: str, data: bytes) -> bool:
        """Publish a root with its first generation at once, so that none is ever empty; False if another came first."""
        place = self.layout.fresh("tmp")
        with refusals(directory, "adding a root"), builders(self.layout):
            try:
                self.disk.mkdir(place)
                self.disk.create(f"{place}/1", [data], sync=True)
                self.disk.fsync(place)
                self.disk.rename(place, directory)
            except OSError as error:
                self.disk.remove_tree(place)
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                    return False
                raise
            self.disk.fsync(os.path.dirname(directory))
        return True

    def list(self) -> tuple[Root, ...]:
        """All generations of all roots, by name and generation. Raises ``CorruptError``."""
        return tuple(root for name in self.layout.entries("roots") for root in self.generations(name))

    def remove(self, name: str) -> None:
        """Remove all generations of ``name``. Raises ``NotFoundError`` if there is none."""
        directory = self.layout.generations(name)
        if not os.path.isdir(directory):
            raise NotFoundError(
                f"root {name!r}: not in the store {self.layout.root}",
                kind="not-found",
                hint="'dsbuild root list' shows what there is",
            )
        grave = self.layout.fresh("trash")
        with refusals(directory, "removing a root"):
            with builders(self.layout):
                self.disk.rename(directory, grave)
                self.disk.fsync(os.path.dirname(directory))
            self.disk.remove_tree(grave)

    def rollback(self, name: str) -> int:
        """Let ``name`` stand for the generation before the current one, and say which that is.

        Raises ``NotFoundError`` where there is none.
        """
        found = self.generations(name)
        at = next((i for i, root in enumerate(found) if root.current), 0)
        if at == 0:
            raise NotFoundError(
                f"root {name!r}: {'its first generation is current' if found else 'not in the store'}",
                kind="not-found",
                hint="'dsbuild root list' shows what there is",
            )
        self._set_current(name, found[at - 1].generation, found[-1].generation)
        return found[at - 1].generation

    def generations(self, name: str) -> tuple[Root, ...]:
        """The generations of ``name`` in order; none if there is no such root. Raises ``CorruptError``."""
        directory = self.layout.generations(name)
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return ()
        numbers = sorted(int(n) for n in names if n.isascii() and n.isdigit())
        strangers = sorted(set(names) - {str(n) for n in numbers} - {_CURRENT})
        if strangers:
            raise CorruptError(f"{directory}/{strangers[0]}: not a generation of a root", kind="corrupt")
        digests = {n: digest for n in numbers if (digest := self._digest(name, n, str(n))) is not None}
        if not digests:
            return ()
        current = max(digests)
        if _CURRENT in names:
            current = self._current(name, directory) or current
            if current not in digests:
                raise CorruptError(f"{directory}: generation {current} is current, but absent", kind="corrupt")
        return tuple(Root(name=name, generation=n, digest=d, current=n == current) for n, d in digests.items())

    def _digest(self, name: str, generation: int, file: str) -> Digest | None:
        path = f"{self.layout.generations(name)}/{file}"
        data = read(path)
        if data is None:  # removed meanwhile
            return None
        value = unseal(data, path)
        if value.get("name") != name or value.get("generation") != generation or value.get("dsbuild") != 1:
            raise CorruptError(
                f"{path}: is generation {value.get('generation')} of {value.get('name')!r}", kind="corrupt"
            )
        return Digest.parse(member(value, "derivation", str, path))

    def _current(self, name: str, directory: str) -> int | None:
        path = f"{directory}/{_CURRENT}"
        data = read(path)
        if data is None:
            return None
        value = unseal(data, path)
        if value.get("name") != name:
            raise CorruptError(f"{path}: belongs to root {value.get('name')!r}", kind="corrupt")
        return int(member(value, "current", int, path))

    def _set_current(self, name: str, generation: int, newest: int) -> None:
        """The newest generation is current unless ``current`` says otherwise."""
        path = f"{self.layout.generations(name)}/{_CURRENT}"
        if generation != newest:
            replace(self.layout, self.disk, path, seal({"current": generation, "dsbuild": 1, "name": name}))
        elif os.path.exists(path):
            with refusals(path, "publishing"), builders(self.layout):
                self.disk.unlink(path)
                self.disk.fsync(os.path.dirname(path))


def _render(name: str, generation: int, digest: Digest) -> bytes:
    return seal({"derivation": digest.hex, "dsbuild": 1, "generation": generation, "name": name})
