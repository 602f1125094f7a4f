"""Layout: where each thing of a store lies. Names are made here only, of digests and checked texts."""

from __future__ import annotations

import os
import re
import socket
import uuid
from dataclasses import dataclass

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError, RecipeError, StorageError

FORMAT = 1

DIRECTORIES = (
    "objects",
    "manifests",
    "derivations",
    "realisations",
    "cuts",
    "partial",
    "roots",
    "leases",
    "locks",
    "cache",
    "tmp",
    "trash",
)
LOCKS = ("locks/turn", "locks/gc")

_FORMAT_TEXT = re.compile(r"dsbuild store ([1-9][0-9]{0,8})\n")
_ROOT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths (text, absolute) of the store at ``root``."""

    root: str

    @property
    def format(self) -> str:
        """The file that says what this directory is."""
        return f"{self.root}/format"

    def contents(self, content: Digest) -> str:
        """The directory of the encodings of a content."""
        name = content.hex
        return f"{self.root}/objects/{name[:2]}/{name}"

    def encoding(self, content: Digest, encoding: Digest) -> str:
        """The directory of one object."""
        return f"{self.contents(content)}/{encoding.hex}"

    def realisation(self, key: Digest) -> str:
        """The file of an action's realisation."""
        return self.keyed("realisations", key, ".json")

    def manifest(self, derivation: Digest) -> str:
        """The file of a derivation's manifest."""
        return self.keyed("manifests", derivation)

    def derivation(self, digest: Digest) -> str:
        """The file of a derivation's canonical bytes."""
        return self.keyed("derivations", digest, ".json")

    def cuts(self, key: Digest) -> str:
        """The file of a cut table."""
        return self.keyed("cuts", key)

    def keyed(self, kind: str, digest: Digest, suffix: str = "") -> str:
        """The file of ``digest`` in directory ``kind``, under the first two digits of its name."""
        name = digest.hex
        return f"{self.root}/{kind}/{name[:2]}/{name}{suffix}"

    def partial(self, derivation: Digest) -> str:
        """The file that protects a build under way."""
        return f"{self.root}/partial/{derivation.hex}"

    def generations(self, name: str) -> str:
        """The directory of a root. Raises ``RecipeError`` kind ``bad-name``."""
        return f"{self.root}/roots/{check_root(name)}"

    def fresh(self, directory: str) -> str:
        """A path in ``directory`` that nobody else uses: <host>-<pid>-<uuid>."""
        host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:64] or "host"
        return f"{self.root}/{directory}/{host}-{os.getpid()}-{uuid.uuid4().hex}"

    def short(self, path: str) -> str:
        """``path`` relative to the store, for messages."""
        return path.removeprefix(self.root + "/")

    def names(self, kind: str, suffix: str = "", begin: str = "") -> list[Digest]:
        """The sorted digests that have an entry in ``objects``, ``realisations``…; strangers are left out.

        Only directories that can have names which begin with ``begin`` are read.
        """
        found = []
        for prefix in sorted(n for n in _listed(f"{self.root}/{kind}") if n.startswith(begin[:2])):
            for name in sorted(_listed(f"{self.root}/{kind}/{prefix}")):
                text = name.removesuffix(suffix)
                if name.endswith(suffix) and text[:2] == prefix and _HEX.fullmatch(text):
                    found.append(Digest.parse(text))
        return found

    def entries(self, directory: str) -> list[str]:
        """The sorted names in ``directory`` of the store."""
        return sorted(_listed(f"{self.root}/{directory}"))

    def encodings(self, content: Digest) -> list[Digest]:
        """The sorted encodings of a content; empty if it is not in the store."""
        return [Digest.parse(name) for name in sorted(_listed(self.contents(content))) if _HEX.fullmatch(name)]


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def check_root(name: str) -> str:
    """``name`` if it can name a root. Raises ``RecipeError`` if not."""
    if not _ROOT.fullmatch(name):
        raise RecipeError(
            f"root {name!r}: can't be a name",
            kind="bad-name",
            hint="letters, digits, '_', '.' and '-', at most 128, no '.' or '-' first",
        )
    return name


def check_format(layout: Layout) -> None:
    """Raise unless ``layout`` is a store that this release can use."""
    try:
        with open(layout.format, "rb") as file:
            data = file.read(64)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"{layout.root}: not a store (it has no 'format' file)",
            kind="not-found",
            hint="'dsbuild build' makes a store; name another with --store or DSBUILD_STORE",
        ) from None
    except OSError as error:
        raise StorageError(f"{layout.format}: can't be read ({error.strerror})", kind="io-error") from error
    match = _FORMAT_TEXT.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise CorruptError(
            f"{layout.format}: {data!r} instead of 'dsbuild store {FORMAT}'",
            kind="corrupt",
            hint="if this is a store, write that line into the file; nothing else depends on it",
        )
    if int(match[1]) != FORMAT:
        raise StorageError(
            f"{layout.root}: a store of format {match[1]}; this release knows format {FORMAT}",
            kind="store-format",
            hint="use the release of dsbuild that made it, or a newer one",
        )
