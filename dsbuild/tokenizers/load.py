"""Load: from what a recipe's ``[tokenizer]`` says to a tokenizer, with errors that name the file."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import LockError, MachineError, RecipeError, Where
from dsbuild.interfaces import Tokenizer
from dsbuild.tokenizers.bytes import SPECIAL, Bytes
from dsbuild.tokenizers.huggingface import HuggingFace

BYTES = "bytes"
FILE = "tokenizer.json"
MAX_SIZE = 1 << 29


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFacts:
    """What a lock keeps: ``fingerprint``, ``size`` (number of ids), ids of ``tokens`` by text.

    ``path``: the file that was read, None for ``bytes``; ``libraries``: class by name of the engines that decide ids.
    """

    fingerprint: Digest
    size: int
    tokens: Mapping[str, int]
    path: Path | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)


def load_tokenizer(
    file: str, directory: Path, expected: Digest | None = None, known: tuple[Digest, Digest] | None = None
) -> Tokenizer:
    """The tokenizer ``file``: ``bytes``, a tokenizer.json, or a directory that holds one, from ``directory``.

    ``known``: (BLAKE3 of a file, its fingerprint), which saves making the fingerprint of that very file again.
    Raises ``RecipeError`` (``no-such-file``, ``not-a-file``, ``unreadable``, ``bad-tokenizer``), ``MachineError``
    without the library, and ``LockError`` if the fingerprint is not ``expected``.
    """
    path = locate(file, directory)
    found: Tokenizer
    if path is None:
        found = Bytes()
    else:
        data = _read(file, path)
        try:
            same = known is not None and of_bytes(Domain.FILE, data) == known[0]
            found = HuggingFace(data, known[1] if known is not None and same else None)
        except ImportError:
            hint = "pip install tokenizers"
            raise MachineError(f"{file}: needs the library tokenizers", kind="missing-library", hint=hint) from None
        except ValueError as error:
            raise _bad(f"{file}: {error}", path) from None
    if expected is not None and found.fingerprint != expected:
        raise LockError(
            f"{file}: has fingerprint {found.fingerprint.short}, locked was {expected.short}",
            kind="lock-mismatch",
            where=Where(path=str(path or file)),
            hint="put the old file back, or accept this one with 'dsbuild lock --update'",
        )
    return found


def probe(file: str, directory: Path, texts: Iterable[str] = ()) -> TokenizerFacts:
    """The facts of a tokenizer, with the id of each of ``texts`` (EOS, BOS, padding).

    Raises as ``load_tokenizer``, and ``RecipeError`` ``bad-tokenizer`` for a text that is not exactly one token.
    """
    found = load_tokenizer(file, directory)
    path = locate(file, directory)
    tokens = {}
    for text in dict.fromkeys(texts):
        number = found.token(text)
        if number is None:
            raise _not_one(file, path, found, text)
        tokens[text] = number
    return TokenizerFacts(
        fingerprint=found.fingerprint,
        size=found.size,
        tokens=tokens,
        path=path,
        libraries={} if path is None else {"tokenizers": library_class()},
    )


def library_class() -> str:
    """The class of the ``tokenizers`` library on this machine: major.minor."""
    import importlib.metadata

    return ".".join(importlib.metadata.version("tokenizers").split(".")[:2])


def locate(file: str, directory: Path) -> Path | None:
    """The file behind ``[tokenizer] file``; None for the built-in ``bytes``. Raises ``RecipeError``."""
    if file == BYTES:
        return None
    path = directory / file
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            path = path / FILE
            mode = path.stat().st_mode
    except FileNotFoundError:
        said = "no such file" if path == directory / file else f"no {FILE} in this directory"
        raise RecipeError(
            f"{file}: {said}", kind="no-such-file", where=Where(path=str(path)), hint=_hint(path)
        ) from None
    except (OSError, ValueError) as error:
        raise RecipeError(f"{file}: {error}", kind="unreadable") from None
    if not stat.S_ISREG(mode):
        raise RecipeError(f"{file}: not a file", kind="not-a-file", where=Where(path=str(path)))
    return path


def _hint(path: Path) -> str:
    if path.parent.is_dir():
        others = sorted(p.name for p in path.parent.iterdir() if p.suffix in (".json", ".model", ".txt"))[:5]
        beside = f"; beside it are {', '.join(others)}" if others else ""
        return f'only {FILE} files of Hugging Face are read{beside}; file = "bytes" needs none'
    return 'paths start from the recipe\'s directory; file = "bytes" needs none'


def _read(file: str, path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_SIZE:
            raise _bad(f"{file}: {path.stat().st_size} bytes, more than {MAX_SIZE}", path)
        return path.read_bytes()
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}", kind="unreadable", where=Where(path=str(path))) from None


def _not_one(file: str, path: Path | None, tokenizer: Tokenizer, text: str) -> RecipeError:
    if isinstance(tokenizer, HuggingFace):
        ids = tokenizer.ids(text)
        shown = f"{ids[:8]}" + (" …" if len(ids) > 8 else "")
        said = f"would be {len(ids)} tokens, {shown}, not one" if ids else "would be no token"
        said = "is unknown to it" if len(ids) == 1 else said
        special = tokenizer.special[:6]
        hint = f"its special tokens are {', '.join(map(repr, special))}" if special else "it has no special tokens"
    else:
        said, hint = "is not one token", f"its special tokens are {', '.join(SPECIAL)}"
    return _bad(f"{file}: {text!r} {said}", path, hint)


def _bad(message: str, path: Path | None, hint: str | None = None) -> RecipeError:
    where = None if path is None else Where(path=str(path))
    return RecipeError(message, kind="bad-tokenizer", where=where, hint=hint)
