"""Change: how the world differs from its lock, as people are told it, and how they accept it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dsbuild.errors import Diagnostic, LockError, RecipeError
from dsbuild.recipe.lock import (
    Entry,
    Lock,
    LockedData,
    LockedFile,
    LockedLibrary,
    LockedSource,
    LockedTokenizer,
    lock_path,
)
from dsbuild.recipe.suggest import did_you_mean
from dsbuild.recipe.types import Recipe

MOST = 20
"""Changes that are told one by one."""

TOKENIZER = "tokenizer"
"""The name by which ``--update`` accepts the tokenizer and its library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. ``kind``: added, removed, changed, or moved (another name, the same content in the same place).

    ``entry``: file, source, tokenizer, data or library. ``name``: its name now; ``old_name``: before, where that
    differs. ``group``: the NAME by which ``--update`` accepts it. Ids are ``b3:…`` (of a library its class), sizes bytes
    (of a source the number of files).
    """

    kind: str
    entry: str
    name: str
    group: str
    old_name: str | None = None
    old_id: str | None = None
    new_id: str | None = None
    old_size: int | None = None
    new_size: int | None = None


def compare(old: Lock, new: Lock) -> tuple[Change, ...]:
    """All differences, sorted by what they are of: none if the world is as locked."""
    if old == new:
        return ()
    found: list[Change] = []
    names = {s.name for s in old.sources} | {s.name for s in new.sources}
    for name in sorted(names):
        found += _source_changes(name, old, new)
    found += _one_by_one("data", {e.name: e for e in old.data_files}, {e.name: e for e in new.data_files})
    found += _tokenizer_changes(old.tokenizer, new.tokenizer)
    found += _one_by_one("library", {e.name: e for e in old.library_classes}, {e.name: e for e in new.library_classes})
    return tuple(found)


def _source_changes(name: str, old: Lock, new: Lock) -> Iterable[Change]:
    was, now = old.in_order(name), new.in_order(name)
    before, after = old.source(name), new.source(name)
    if before is None or after is None:
        kind = "added" if before is None else "removed"
        return [Change(kind=kind, entry="source", name=name, group=name, old_size=len(was), new_size=len(now))]
    if [f.id for f in was] == [f.id for f in now]:
        pairs = [(a, b) for a, b in zip(was, now, strict=True) if a != b]
        moved = [_change("moved", "file", a, b) for a, b in pairs if a.name != b.name]
        if not moved and before != after or pairs and not moved:
            moved = [Change(kind="moved", entry="source", name=name, group=name, old_size=len(was), new_size=len(now))]
        return moved
    found = _one_by_one("file", {f.name: f for f in was}, {f.name: f for f in now})
    if found:
        return found
    return [Change(kind="changed", entry="source", name=name, group=name, old_size=len(was), new_size=len(now))]


def _tokenizer_changes(old: LockedTokenizer | None, new: LockedTokenizer | None) -> list[Change]:
    if old == new:
        return []
    if old is None or new is None:
        return [_change("added" if old is None else "removed", TOKENIZER, old, new)]
    same = (old.id, old.fingerprint, old.size, old.tokens) == (new.id, new.fingerprint, new.size, new.tokens)
    return [_change("moved" if same else "changed", TOKENIZER, old, new)]


def _one_by_one(entry: str, old: Mapping[str, Entry], new: Mapping[str, Entry]) -> list[Change]:
    found = []
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            found.append(_change("added" if was is None else "removed", entry, was, now))
        elif _id(was) != _id(now):
            found.append(_change("changed", entry, was, now))
    return found


def _change(kind: str, entry: str, old: Entry | None, new: Entry | None) -> Change:
    named = new or old
    assert named is not None
    group = named.source if isinstance(named, LockedFile) else TOKENIZER if entry == TOKENIZER else named.name
    return Change(
        kind=kind,
        entry=entry,
        name=named.name,
        group=group,
        old_name=old.name if old is not None and old.name != named.name else None,
        old_id=None if old is None else _id(old),
        new_id=None if new is None else _id(new),
        old_size=None if old is None else _size(old),
        new_size=None if new is None else _size(new),
    )


def _id(entry: Entry) -> str:
    match entry:
        case LockedFile() | LockedData():
            return f"b3:{entry.id.hex}"
        case LockedTokenizer():
            return entry.id
        case LockedLibrary():
            return entry.version_class
        case LockedSource():
            return ""


def _size(entry: Entry) -> int | None:
    return entry.size if isinstance(entry, LockedFile | LockedData | LockedTokenizer) else None


def merge(old: Lock, new: Lock, names: Sequence[str] = ()) -> Lock:
    """``old`` with the entries of ``new`` for ``names`` (all without names): sources, ``tokenizer``, data, libraries.

    Raises ``RecipeError`` for a name that neither lock has.
    """
    if not names:
        return new
    known = {_group(entry) for entry in (*old.all(), *new.all())} | {
        e.name for e in (*old.library_classes, *new.library_classes)
    }
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"names here: {', '.join(sorted(known)[:12])}"
            raise RecipeError(
                f"--update {name}: neither the recipe nor its lock has it", kind="unknown-node", hint=hint
            )
    taken = set(names)

    def is_taken(entry: Entry) -> bool:
        return _group(entry) in taken or (isinstance(entry, LockedLibrary) and entry.name in taken)

    return Lock.of([*(e for e in old.all() if not is_taken(e)), *(e for e in new.all() if is_taken(e))])


def _group(entry: Entry) -> str:
    """The name by which ``--update`` means an entry. The tokenizer and its engine go together."""
    if isinstance(entry, LockedFile):
        return entry.source
    if isinstance(entry, LockedTokenizer) or (isinstance(entry, LockedLibrary) and entry.name == "tokenizers"):
        return TOKENIZER
    return entry.name


def lock_error(recipe: Recipe, changes: Iterable[Change]) -> LockError:
    """The error that lists ``changes`` (those that are ``moved`` are no error), with the commands that accept them."""
    wrong = [c for c in changes if c.kind != "moved"]
    diagnostics = [_diagnostic(recipe, change) for change in wrong[:MOST]]
    if len(wrong) > MOST:
        rest = len(wrong) - MOST
        diagnostics.append(
            Diagnostic(
                message=f"and {rest} more changes since the lock",
                kind="lock-mismatch",
                hint=f"accept all of them with '{_command(recipe, '')}'",
            )
        )
    return LockError(diagnostics=diagnostics)


def _diagnostic(recipe: Recipe, change: Change) -> Diagnostic:
    keys = {
        "file": ("source", change.group, "files"),
        "source": ("source", change.name, "files"),
        "tokenizer": ("tokenizer", "file"),
    }
    return Diagnostic(
        message=f"{_label(change)}: {_told(change)} since the lock{_pinned(recipe)}",
        kind="library-class" if change.entry == "library" else "lock-mismatch",
        where=recipe.where(*keys.get(change.entry, ())),
        hint=f"accept it with '{_command(recipe, change.group)}'",
    )


def _label(change: Change) -> str:
    return change.name if change.entry in ("file", "data") else f"{change.entry} {change.name}"


def _told(change: Change) -> str:
    """What happened, with both sizes, and ids where sizes do not show it."""
    unit = {"source": "files", "tokenizer": "ids"}.get(change.entry, "bytes")
    if change.entry == "library":
        return f"was {change.old_id or 'absent'}, is {change.new_id or 'absent'}"
    if change.kind == "added":
        return f"added ({change.new_size} {unit})"
    if change.kind == "removed":
        return f"removed (it had {change.old_size} {unit})"
    if change.entry == "source":
        return "the order of its files changed"
    was = f"{change.old_size} {unit}, {_short(change.old_id)}"
    return f"changed (was {was}; now {change.new_size} {unit}, {_short(change.new_id)})"


def _short(text: str | None) -> str:
    return (text or "")[:15]


def _pinned(recipe: Recipe) -> str:
    """When the lock was written, for people; nothing where that is not known."""
    try:
        written = lock_path(recipe.path).stat().st_mtime
    except OSError:
        return ""
    return time.strftime(" of %Y-%m-%d %H:%M UTC", time.gmtime(written))


def _command(recipe: Recipe, group: str) -> str:
    return shlex.join(["dsbuild", "lock", str(recipe.path), "--update", *([group] if group else [])])
