"""Outputs: what a finished build leaves beside the recipe and in the store: a root, and the content digests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from dsbuild.build import BuildReport, Session
from dsbuild.digest import Digest, Domain, of_value
from dsbuild.errors import DsbuildError
from dsbuild.files import write_atomically
from dsbuild.store import Store


def node_content(contents: Iterable[Digest]) -> Digest:
    """The content digest of a node: the Merkle list of its parts'."""
    return of_value(Domain.NODE, [c.hex for c in contents])


def outputs_path(recipe: Path) -> Path:
    """``NAME.outputs`` beside ``NAME.toml``."""
    return recipe.with_suffix(".outputs")


def finish(session: Session, store: Store, report: BuildReport) -> None:
    """Root the recipe's hash under its name and write ``NAME.outputs`` (content digests; never hashed)."""
    store.roots.add(session.recipe.name, report.output)
    lines = [json.dumps({"name": "hash", "digest": report.output.hex}, sort_keys=True)]
    for node in report.nodes:
        manifest = store.manifest(node.digest)
        if manifest is not None:
            row = {
                "content": node_content(manifest.content_digests()).hex,
                "derivation": node.digest.hex,
                "kind": node.kind,
                "name": node.label,
                "records": node.records,
            }
            lines.append(json.dumps(row, sort_keys=True, ensure_ascii=False))
    text = "\n".join(sorted(lines)) + "\n"
    path = outputs_path(session.recipe.path)
    try:
        if not path.exists() or path.read_text("utf-8") != text:
            write_atomically(path, text.encode("utf-8"))
    except (OSError, DsbuildError):
        return  # a recipe in a read-only place is fine: the file is only a convenience
