"""Names: literal tables of what is built in, and entry points for the rest. Nothing is imported before it is used.

A name that is built in can't be taken by an installed package.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsbuild.digest import Digest
from dsbuild.errors import DsbuildError, MachineError
from dsbuild.interfaces import Handler, Reader, Tokenizer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

HANDLERS = {
    "copy": "dsbuild.handlers.columns:Copy",
    "drop": "dsbuild.handlers.columns:Drop",
    "keep": "dsbuild.handlers.keep:Keep",
    "python": "dsbuild.handlers.python:Python",
    "rename": "dsbuild.handlers.columns:Rename",
    "select": "dsbuild.handlers.columns:Select",
    "tokenize": "dsbuild.handlers.tokenize:Tokenize",
}
READERS = {
    "arrow": "dsbuild.readers.arrow:Arrow",
    "csv": "dsbuild.readers.csv:Csv",
    "jsonl": "dsbuild.readers.jsonl:JsonLines",
    "parquet": "dsbuild.readers.parquet:Parquet",
    "text": "dsbuild.readers.text:Text",
}
SUFFIXES = {
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".csv": "csv",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".md": "text",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tsv": "csv",
    ".txt": "text",
}
"""Which reader serves a file, by the last suffix that names no compression; here, so that no reader is imported."""

COMPRESSED = (".gz", ".zst")
PYTHON = "python"
"""The handler behind ``use = "file.py:function"``; users don't name it."""


class UnknownPlugin(LookupError):
    """A name that no table and no entry point has; ``hint`` says what there is, or what may have been meant."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str | None = None) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, 1)
        self.name = name
        self.suggestions = tuple(difflib.get_close_matches(name, names, 3))
        self.hint = hint or (f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}")
        super().__init__(f"{name!r}: no such {kind}")


def handler(name: str) -> type[Handler]:
    """The class of handler ``name``. Raises ``UnknownPlugin``, and ``MachineError`` for a plug-in that doesn't load."""
    found: type[Handler] = _find("handler", name, HANDLERS, handler_names)
    return found


def reader(name: str) -> Reader:
    """The reader ``name``. Raises as ``handler``."""
    found: Reader = _find("reader", name, READERS, reader_names)()
    return found


def reader_for(filename: str, format: str | None = None) -> Reader:
    """The reader of ``format``, or of the suffix of ``filename`` (a name or a pattern, maybe ``.gz`` or ``.zst``)."""
    return reader(format_of(filename) if format is None else format)


def format_of(filename: str) -> str:
    """The name of the reader that serves ``filename`` by its suffix. Raises ``UnknownPlugin``."""
    suffixes = [s.lower() for s in Path(filename).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    for entry in _entries("reader"):
        if suffix and suffix in _load("reader", entry.name, entry).suffixes:
            return entry.name
    hint = f"say which with format = one of {', '.join(reader_names())}"
    raise UnknownPlugin("reader of files with suffix", suffix or filename, SUFFIXES, hint)


def handler_names() -> tuple[str, ...]:
    """The sorted names that ``use`` takes, built in and installed."""
    return tuple(sorted({*HANDLERS, *(e.name for e in _entries("handler"))} - {PYTHON}))


def reader_names() -> tuple[str, ...]:
    """The sorted names that ``format`` takes, built in and installed."""
    return tuple(sorted({*READERS, *(e.name for e in _entries("reader"))}))


def load_tokenizer(
    file: str,
    directory: Path = Path(),
    expected: Digest | None = None,
    known: tuple[Digest, Digest] | None = None,
) -> Tokenizer:
    """See ``dsbuild.tokenizers.load``; here so that rooms beside tokenizers need not import it."""
    found: Tokenizer = _attribute("dsbuild.tokenizers:load_tokenizer")(file, directory, expected, known)
    return found


def probe_tokenizer(file: str, directory: Path, texts: Iterable[str] = ()) -> Any:
    """See ``dsbuild.tokenizers.load``: a ``TokenizerFacts``."""
    return _attribute("dsbuild.tokenizers:probe")(file, directory, texts)


def _find(kind: str, name: str, table: dict[str, str], known: Callable[[], Iterable[str]]) -> Any:
    if name in table:  # what is installed is looked through only for other names: it takes milliseconds
        return _attribute(table[name])
    for entry in _entries(kind):
        if entry.name == name:
            return _load(kind, name, entry)
    raise UnknownPlugin(kind, name, known())


def _attribute(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _entries(kind: str) -> tuple[EntryPoint, ...]:
    import importlib.metadata  # brings the email package: only for names that are not built in

    return tuple(importlib.metadata.entry_points(group=f"dsbuild.{kind}s"))


def _load(kind: str, name: str, entry: EntryPoint) -> Any:
    """The class of an installed plug-in, if it is one. Raises ``MachineError``."""
    try:
        found = entry.load()
    except DsbuildError:
        raise
    except Exception as error:  # noqa: BLE001 - a plug-in raises what it likes
        raise _broken(kind, name, entry, f"does not load: {type(error).__name__}: {error}") from None
    wanted = ("arguments", "apply", "resolve", "effect") if kind == "handler" else ("arguments", "split", "read")
    for attribute in ("name", "version", *wanted):
        if not hasattr(found, attribute):
            raise _broken(kind, name, entry, f"has no '{attribute}'")
    if found.name != name or type(found.version) is not int:
        raise _broken(kind, name, entry, f"calls itself {found.name!r} version {found.version!r}")
    return found


def _broken(kind: str, name: str, entry: EntryPoint, what: str) -> MachineError:
    package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    hint = "a name is hashed as name@version: a plug-in's name is that of its entry point, its version an integer"
    return MachineError(f"{kind} '{name}' ({entry.value}{package}) {what}", kind="missing-library", hint=hint)
