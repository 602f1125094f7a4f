"""Lock file: a lock as JSON Lines, sorted, one entry a line, so that git merges it and people read the difference.

Untrusted on the way in: every field is checked. Written at once (temporary file, fsync, rename) and byte for byte the
same for the same lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from dsbuild.digest import Digest
from dsbuild.errors import LockError, Where
from dsbuild.recipe.lock import (
    BUILTIN,
    Entry,
    Lock,
    LockedData,
    LockedFile,
    LockedLibrary,
    LockedSource,
    LockedTokenizer,
)
from dsbuild.recipe.writing import write_atomically

VERSION = 1

_HEAD = {"dsbuild": "lock", "version": VERSION}
_ID = re.compile(r"b3:[0-9a-f]{64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class _BadEntryError(Exception):
    """A line that is no entry; its argument says why."""


def write_lock(path: Path, lock: Lock) -> None:
    """Write ``lock`` to ``path``, unless the file says just that. Raises ``StorageError``."""
    write_atomically(path, encode_lock(lock), "the lock stands beside the recipe, in a directory that you can write")


def encode_lock(lock: Lock) -> bytes:
    """The bytes of the lock file."""
    lines = sorted(_dump(_fields(entry)) for entry in lock.all())
    return ("\n".join([_dump(_HEAD), *lines]) + "\n").encode("utf-8")


def read_lock(path: Path) -> Lock:
    """The lock at ``path``. Raises ``LockError``: ``missing-lock``, ``bad-lock`` with the line."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        hint = f"'dsbuild lock {path.with_suffix('.toml')}' makes it"
        raise LockError(f"{path}: no lock", kind="missing-lock", where=Where(path=str(path)), hint=hint) from None
    except OSError as error:
        raise _bad(path, error.strerror or str(error), None) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(path, "not UTF-8", data.count(b"\n", 0, error.start) + 1) from None
    lines = text.split("\n")
    _check_head(path, lines[0])
    numbers = [n for n, line in enumerate(lines[1:], start=2) if line.strip()]
    entries: list[Entry] = []
    for number, value in zip(numbers, _values(path, [lines[n - 1] for n in numbers], numbers), strict=True):
        try:
            entries.append(_entry(value))
        except _BadEntryError as error:
            raise _bad(path, str(error), number) from None
    try:
        return Lock.of(entries)
    except ValueError as error:
        raise _bad(path, str(error), _line_of(str(error), lines)) from None


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fields(entry: Entry) -> dict[str, Any]:
    """The fields of a line: what sorts first stands first, so that sorted lines are grouped for people."""
    match entry:
        case LockedFile():
            named = {"kind": "file", "source": entry.source, "name": entry.name, "pattern": entry.pattern}
            return {**named, "id": f"b3:{entry.id.hex}", "size": entry.size}
        case LockedSource():
            return {"kind": "source", "name": entry.name, "patterns": list(entry.patterns)}
        case LockedTokenizer():
            tokens = {text: entry.tokens[text] for text in sorted(entry.tokens)}
            named = {"kind": "tokenizer", "name": entry.name, "id": entry.id, "fingerprint": entry.fingerprint.hex}
            return {**named, "size": entry.size, "tokens": tokens}
        case LockedData():
            return {"kind": "data", "name": entry.name, "id": f"b3:{entry.id.hex}", "size": entry.size}
        case LockedLibrary():
            return {"kind": "library", "name": entry.name, "class": entry.version_class}


def _check_head(path: Path, line: str) -> None:
    try:
        head = json.loads(line)
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("dsbuild") != "lock":
        raise _bad(path, f"a lock begins with {_dump(_HEAD)}", 1)
    if head != _HEAD:
        raise _bad(path, f"version {head.get('version')!r} of the lock's format; this release knows {VERSION}", 1)


def _values(path: Path, lines: list[str], numbers: list[int]) -> list[Any]:
    """The JSON values of ``lines``: all at once, and one by one only to find the line that is wrong."""
    try:
        values = json.loads("[" + ",".join(lines) + "]")
        if len(values) == len(lines):
            return list(values)
    except (ValueError, RecursionError):
        pass
    found = []
    for number, line in zip(numbers, lines, strict=True):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            conflict = line.startswith(("<<<<<<<", "=======", ">>>>>>>", "|||||||"))
            raise _bad(path, "the mark of a merge conflict" if conflict else "not JSON", number) from None
    return found


def _entry(value: Any) -> Entry:
    if not isinstance(value, dict):
        raise _BadEntryError("not an entry")
    make = _MAKERS.get(str(value.get("kind")))
    if make is None:
        raise _BadEntryError(f"no entry has kind {value.get('kind')!r}")
    try:
        entry = make(value)
    except KeyError as error:
        raise _BadEntryError(f"{error.args[0]!r} is missing") from None
    if len(value) != len(_FIELDS[value["kind"]]):
        extra = sorted(set(value) - set(_FIELDS[value["kind"]]))
        raise _BadEntryError(f"no such field: {', '.join(map(repr, extra))}")
    return entry


def _file(value: dict[str, Any]) -> LockedFile:
    # source and pattern are the same few texts on many lines: looked at once each
    return LockedFile(
        source=_repeated(value, "source"),
        name=_text(value, "name"),
        pattern=_repeated(value, "pattern"),
        id=_id(value),
        size=_count(value, "size"),
    )


def _repeated(value: dict[str, Any], key: str) -> str:
    return _checked(value[key], key) if isinstance(value[key], str) else _text(value, key)


@lru_cache(maxsize=64)
def _checked(found: str, key: str) -> str:
    return _text({key: found}, key)


def _source(value: dict[str, Any]) -> LockedSource:
    patterns = value["patterns"]
    if not isinstance(patterns, list) or not patterns or not all(isinstance(p, str) for p in patterns):
        raise _BadEntryError("'patterns' is not a list of texts")
    return LockedSource(name=_text(value, "name"), patterns=tuple(patterns))


def _tokenizer(value: dict[str, Any]) -> LockedTokenizer:
    tokens = value["tokens"]
    if not isinstance(tokens, dict):
        raise _BadEntryError("'tokens' is not an object")
    found = value["id"] if value["id"] == BUILTIN else f"b3:{_id(value).hex}"
    fingerprint = _text(value, "fingerprint")
    return LockedTokenizer(
        name=_text(value, "name"),
        id=found,
        fingerprint=_digest("fingerprint", f"b3:{fingerprint}"),
        size=_count(value, "size"),
        tokens={text: _count(tokens, text) for text in tokens},
    )


def _data(value: dict[str, Any]) -> LockedData:
    return LockedData(name=_text(value, "name"), id=_id(value), size=_count(value, "size"))


def _library(value: dict[str, Any]) -> LockedLibrary:
    return LockedLibrary(name=_text(value, "name"), version_class=_text(value, "class"))


_MAKERS: Mapping[str, Callable[[dict[str, Any]], Entry]] = {
    "file": _file,
    "source": _source,
    "tokenizer": _tokenizer,
    "data": _data,
    "library": _library,
}
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "file": ("kind", "source", "name", "pattern", "id", "size"),
    "source": ("kind", "name", "patterns"),
    "tokenizer": ("kind", "name", "id", "fingerprint", "size", "tokens"),
    "data": ("kind", "name", "id", "size"),
    "library": ("kind", "name", "class"),
}


def _text(value: dict[str, Any], key: str) -> str:
    found = value[key]
    if not isinstance(found, str) or not found or _CONTROL.search(found):
        raise _BadEntryError(f"{key!r} is not a text: {found!r}")
    if not found.isascii() and found != found.encode("utf-8", "replace").decode():
        raise _BadEntryError(f"{key!r} has a lone surrogate")
    return found


def _count(value: dict[str, Any], key: str) -> int:
    found = value[key]
    if type(found) is not int or not 0 <= found < 1 << 63:
        raise _BadEntryError(f"{key!r} is not a number of things: {found!r}")
    return found


def _id(value: dict[str, Any]) -> Digest:
    return _digest("id", value["id"])


def _digest(key: str, text: object) -> Digest:
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise _BadEntryError(f"{key!r} is not 'b3:' and 64 hexadecimal digits")
    return Digest(bytes.fromhex(text[3:]))


def _line_of(message: str, lines: list[str]) -> int | None:
    """The last line that has the name which ``message`` ends with or mentions, to point at a double entry."""
    for number in range(len(lines), 1, -1):
        try:
            value = json.loads(lines[number - 1])
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("name"), str) and f" {value['name']}" in message:
            return number
    return None


def _bad(path: Path, message: str, line: int | None) -> LockError:
    return LockError(
        f"{path}: not a lock: {message}",
        kind="bad-lock",
        where=Where(path=str(path), line=line),
        hint=f"put the last good one back, or delete it and run 'dsbuild lock {path.with_suffix('.toml')}'",
    )
