"""Change: how the world differs from its lock, as people are told it, and how they accept it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
    differs. ``group``: the NAME by which ``--update`` accepts it. Ids are ``b3:…`` (of a library its class), sizes are
    bytes (of a source the number of its files).
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
    """How ``new`` differs from ``old``: nothing if ``old`` says all that ``new`` does.

    What only ``old`` speaks of as a whole (a source, a library that the recipe no longer has) is no difference.
    """
    if old == new:
        return ()
    found: list[Change] = []
    for source in new.sources:
        found += _source_changes(source, old, new)
    found += _one_by_one("data", {e.name: e for e in old.data_files}, {e.name: e for e in new.data_files})
    found += _tokenizer_changes(old.tokenizer, new.tokenizer)
    found += _one_by_one("library", {e.name: e for e in old.library_classes}, {e.name: e for e in new.library_classes})
    return tuple(c for c in found if c.kind != "removed" or c.entry == "file")


def _source_changes(source: LockedSource, old: Lock, new: Lock) -> list[Change]:
    name = source.name
    was, now = old.in_order(name), new.in_order(name)
    whole = Change(kind="changed", entry="source", name=name, group=name, old_size=len(was), new_size=len(now))
    if old.source(name) is None:
        return [replace(whole, kind="added", old_size=None)]
    if [f.id for f in was] == [f.id for f in now]:
        moved = [_change("moved", "file", a, b) for a, b in zip(was, now, strict=True) if a.name != b.name]
        if not moved and (old.source(name) != source or was != now):
            return [replace(whole, kind="moved")]
        return moved
    return _one_by_one("file", {f.name: f for f in was}, {f.name: f for f in now}) or [whole]


def _tokenizer_changes(old: LockedTokenizer | None, new: LockedTokenizer | None) -> list[Change]:
    if new is None or old == new:
        return []
    if old is None:
        return [_change("added", TOKENIZER, old, new)]
    same_file = (old.id, old.fingerprint, old.size) == (new.id, new.fingerprint, new.size)
    if not same_file or not new.tokens.items() <= old.tokens.items():
        return [_change("changed", TOKENIZER, old, new)]
    return [_change("moved", TOKENIZER, old, new)] if old.name != new.name else []


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
    if change.entry == "tokenizer" and change.old_id == change.new_id:
        return "its special tokens or its engine changed"
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
