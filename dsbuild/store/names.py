"""Names: what people call the sources and files of a hash; kept in the store's cache, never hashed, only printed.

Safe because nothing is decided by them: a file that is missing, damaged or written by somebody else gives other words
in messages, and no control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError
from dsbuild.store.sealed import seal, unseal
from dsbuild.store.store import Store

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """``views``: a source's name by the digest (text) of the view that a mixture has of it. ``files``: by the digest
    (text) of a ``source`` derivation, the names of its files in order, as the lock has them."""

    views: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def source(self, view: Digest) -> str | None:
        """The name of the source that ``view`` is of, printable; None if not known."""
        found = self.views.get(view.hex)
        return None if found is None else printable(found)


def printable(text: str) -> str:
    """``text`` with all that does not print (control characters, directions, surrogates) as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def names_path(store: Store, digest: Digest) -> Path:
    """Where a store keeps the names of the recipe's hash ``digest``."""
    return store.cache_directory() / "names" / digest.hex


def render_names(names: Names) -> bytes:
    """The bytes of a file of names. Raises ``ValueError`` for text that is no Unicode."""
    files = {digest: list(found) for digest, found in names.files.items()}
    return seal({"dsbuild": VERSION, "files": files, "views": dict(names.views)})


def read_names(store: Store, digest: Digest) -> Names:
    """The names of the hash ``digest``; none where the file is missing, damaged or of another release."""
    path = names_path(store, digest)
    try:
        value = unseal(path.read_bytes(), str(path))
    except (OSError, ValueError, RecursionError, CorruptError):
        return Names()
    views, files = value.get("views"), value.get("files")
    if value.get("dsbuild") != VERSION or not isinstance(views, dict) or not isinstance(files, dict):
        return Names()
    if not _are_texts(views.values()) or not all(isinstance(f, list) and _are_texts(f) for f in files.values()):
        return Names()
    return Names(views=views, files=files)


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(text, str) for text in values)
