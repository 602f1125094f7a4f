"""Flow: which columns exist after each handler, and which are needed before it, known before any record is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dsbuild.interfaces import Effect
from dsbuild.schema import Field

ALL = None
"""The need of a handler that may read any field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What is known of the columns at one point.

    ``typed`` fields by name, ``untyped`` names, and whether others may exist (``open``: JSON Lines, CSV and Parquet
    files are read as they are found); ``gone``: names that can't exist although ``open``.
    """

    typed: Mapping[str, Field] = field(default_factory=dict)
    untyped: frozenset[str] = frozenset()
    open: bool = True
    gone: frozenset[str] = frozenset()

    def may_have(self, name: str) -> bool:
        """Whether a column ``name`` can exist here."""
        return name in self.typed or name in self.untyped or (self.open and name not in self.gone)

    def after(self, effect: Effect) -> Columns:
        """The columns after a handler of ``effect``."""
        typed, untyped, gone = dict(self.typed), set(self.untyped), set(self.gone)
        is_open = self.open
        for old, new in effect.renames.items():
            field_ = typed.pop(old, None)
            untyped.discard(old)
            typed.pop(new, None)
            untyped.discard(new)
            if field_ is not None:
                typed[new] = replace(field_, name=new)
            else:
                untyped.add(new)
            gone.add(old)
        before = dict(typed)
        for old, new in effect.copies.items():
            typed.pop(new, None)
            untyped.discard(new)
            if old in before:
                typed[new] = replace(before[old], name=new)
            else:
                untyped.add(new)
        if effect.keeps_only is not None:
            typed = {n: f for n, f in typed.items() if n in effect.keeps_only}
            untyped = {n for n in effect.keeps_only if n not in typed}
            is_open = False
        for name in effect.removes:
            typed.pop(name, None)
            untyped.discard(name)
            gone.add(name)
        if effect.opens:  # user Python gives text back as any value
            is_open, gone = True, set()
            untyped |= {n for n, f in typed.items() if f.dtype == "text"}
            typed = {n: f for n, f in typed.items() if f.dtype != "text"}
        for field_ in effect.adds:
            untyped.discard(field_.name)
            if field_.dtype == "json":
                typed.pop(field_.name, None)
                untyped.add(field_.name)
            else:
                typed[field_.name] = field_
        gone -= set(typed) | untyped
        return Columns(typed=typed, untyped=frozenset(untyped), open=is_open, gone=frozenset(gone))


def needed_before(effect: Effect, needed: frozenset[str] | None) -> frozenset[str] | None:
    """The columns that must exist before a handler of ``effect`` so that ``needed`` exist after it; ``ALL`` = any."""
    if effect.needs is None:
        return ALL
    if needed is None:
        return effect.needs if effect.keeps_only is not None and not effect.opens else ALL
    back = {new: old for moves in (effect.renames, effect.copies) for old, new in moves.items()}
    made = {f.name for f in effect.adds}
    return frozenset(back.get(n, n) for n in needed if n not in made) | effect.needs


def needed_first(effects: Sequence[Effect], needed: frozenset[str] | None) -> frozenset[str] | None:
    """``needed_before`` through a whole chain."""
    for effect in reversed(effects):
        needed = needed_before(effect, needed)
    return needed


def union(needs: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """All that any of ``needs`` wants."""
    found: frozenset[str] = frozenset()
    for need in needs:
        if need is None:
            return ALL
        found |= need
    return found
