"""Outputs: what a finished build leaves beside the recipe: the content digest of each of its nodes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from dsbuild.build import BuildReport, Session, contents_of
from dsbuild.cli.names import keep_names
from dsbuild.digest import Digest, Domain, of_value
from dsbuild.errors import DsbuildError
from dsbuild.recipe import write_atomically
from dsbuild.store import Store


def node_content(contents: Iterable[Digest]) -> Digest:
    """The content digest of a node: the Merkle list of its parts'."""
    return of_value(Domain.NODE, [c.hex for c in contents])


def outputs_path(recipe: Path) -> Path:
    """``NAME.outputs`` beside ``NAME.toml``."""
    return recipe.with_suffix(".outputs")


def finish(session: Session, store: Store, report: BuildReport) -> None:
    """Write ``NAME.outputs`` (content digests; never hashed), and keep the names and a copy of the tokenizer."""
    _keep_tokenizer(session, store)
    keep_names(store, session.instance.graph, session.lock)
    lines = [json.dumps({"name": "hash", "digest": report.output.hex}, sort_keys=True)]
    for node in report.nodes:
        manifest = store.manifest(node.digest)
        if manifest is not None:
            row = {
                "content": node_content(contents_of(manifest)).hex,
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


def tokenizer_copy(store: Store, fingerprint: str) -> Path:
    """Where a store keeps the tokenizer of ``fingerprint``, so that a hash alone can be shown as text."""
    return store.cache_directory() / "tokenizers" / f"{fingerprint}.json"


def _keep_tokenizer(session: Session, store: Store) -> None:
    """Copy the tokenizer's file into the store's cache: a convenience for people, never read by builds or trainers."""
    spec, locked = session.recipe.tokenizer, session.lock.tokenizer
    if spec is None or locked is None or spec.file == "bytes":
        return
    path = session.recipe.directory / spec.file
    path = path / "tokenizer.json" if path.is_dir() else path
    copy = tokenizer_copy(store, locked.fingerprint.hex)
    with contextlib.suppress(OSError, DsbuildError):
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(copy, path.read_bytes())
