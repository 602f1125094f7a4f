"""Describe: derivations as plain values for people and programs."""

from __future__ import annotations

from typing import Any

from dsbuild.digest import Digest
from dsbuild.graph import parse
from dsbuild.store import Store


def nodes_of(store: Store, top: Digest) -> list[dict[str, Any]]:
    """Every derivation below ``top`` that the store has, inputs before users, with counts where it is built."""
    seen: dict[Digest, dict[str, Any]] = {}
    visiting: set[Digest] = set()

    def visit(digest: Digest) -> None:
        if digest in visiting:
            return
        visiting.add(digest)
        data = store.derivation(digest)
        if data is None:
            return
        derivation = parse(data)
        for reference in derivation.references():
            visit(reference)
        manifest = store.manifest(digest) if derivation.kind in ("records", "split", "pack") else None
        tokens = None if manifest is None else manifest.elements.get("input_ids")
        seen[digest] = {
            "digest": digest.hex,
            "kind": derivation.kind,
            "builder": derivation.builder,
            "inputs": len(derivation.inputs),
            "parts": None if manifest is None else len(manifest.records),
            "records": None if manifest is None else int(manifest.records.sum()),
            "tokens": None if tokens is None else int(tokens.sum()),
        }

    visit(top)
    return list(seen.values())


def skips_of(store: Store, digest: Digest) -> tuple[int, list[dict[str, Any]]]:
    """(number of skipped records, those listed) of a ``records`` node that is built."""
    manifest = store.manifest(digest)
    total, listed = 0, []
    for part in range(0 if manifest is None else len(manifest)):
        assert manifest is not None
        made = store.realisation(manifest.action(part))
        if made is not None and made.skipped:
            total += made.skipped
            listed += [dict(s) for s in made.skips]
    return total, listed
