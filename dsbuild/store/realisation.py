"""Realisation: the record that an action gave a content. The only point at which work becomes done.

Create-only: a second one with another content means that the action is not deterministic, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NonDeterministicError
from dsbuild.store.disk import Disk
from dsbuild.store.layout import Layout
from dsbuild.store.publish import create, read
from dsbuild.store.sealed import counts, member, seal, unseal


@dataclass(frozen=True, slots=True, kw_only=True)
class Realisation:
    """What an action gave: ``content`` with ``records`` records; ``elements``, ``longest`` by ragged column.

    There may be no object of ``content`` (a step inside a fused chain). ``skipped``: number of records left out under
    ``on_error = "skip"``; ``skips``: facts about them, perhaps only the first ones. ``provenance``: JSON values for
    people (versions, host, seconds); decides nothing.
    """

    content: Digest
    records: int
    elements: Mapping[str, int] = field(default_factory=dict)
    longest: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    skips: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


def render(key: Digest, realisation: Realisation) -> bytes:
    """The bytes of the file of ``key``."""
    return seal(
        {
            "action": key.hex,
            "content": realisation.content.hex,
            "dsbuild": 1,
            "elements": dict(realisation.elements),
            "longest": dict(realisation.longest),
            "provenance": dict(realisation.provenance),
            "records": realisation.records,
            "skipped": realisation.skipped,
            "skips": [dict(skip) for skip in realisation.skips],
        }
    )


def parse(key: Digest, data: bytes, path: str) -> Realisation:
    """The realisation of ``key`` in ``data``. Raises ``CorruptError`` naming ``path``."""
    value = unseal(data, path)
    if value.get("action") != key.hex or value.get("dsbuild") != 1:
        raise CorruptError(f"{path}: is the realisation of {value.get('action')!r}", kind="corrupt")
    skips = member(value, "skips", list, path)
    if not all(isinstance(skip, dict) for skip in skips):
        raise CorruptError(f"{path}: 'skips' is not a list of objects", kind="corrupt")
    try:
        content = Digest.parse(member(value, "content", str, path))
    except ValueError as error:
        raise CorruptError(f"{path}: {error}", kind="corrupt") from None
    return Realisation(
        content=content,
        records=member(value, "records", int, path),
        elements=counts(value, "elements", path),
        longest=counts(value, "longest", path),
        skipped=member(value, "skipped", int, path),
        skips=tuple(skips),
        provenance=member(value, "provenance", dict, path),
    )


def find(layout: Layout, key: Digest) -> Realisation | None:
    """The realisation of ``key``, if any. Raises ``CorruptError``."""
    path = layout.realisation(key)
    data = read(path)
    return None if data is None else parse(key, data, path)


def record(layout: Layout, disk: Disk, key: Digest, realisation: Realisation) -> Realisation:
    """Make ``realisation`` that of ``key``; the one that stands in the end. See ``Store.realise``."""
    path = layout.realisation(key)

    def keep(there: bytes) -> bool:
        try:
            found = parse(key, there, path)
        except CorruptError:
            return False
        if found.content != realisation.content:
            raise NonDeterministicError(
                f"action {key.short}: gave content {realisation.content.short} now and {found.content.short} before",
                kind="non-deterministic",
                hint="a handler depends on something that is not hashed (time, order, a random state, another file)",
            )
        return True

    return parse(key, create(layout, disk, path, render(key, realisation), keep), path)
