"""Decode: token ids to text for people, by the tokenizer that a dataset was made with, if it is still at hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from dsbuild import registry
from dsbuild.cli.outputs import tokenizer_copy
from dsbuild.digest import Digest
from dsbuild.errors import DsbuildError
from dsbuild.graph import Derivation, parse
from dsbuild.load import Dataset
from dsbuild.store import Store

Decode = Callable[[Sequence[int]], str]


def fingerprints(store: Store, top: Digest) -> set[str]:
    """The tokenizers that the derivations below ``top`` name."""
    found: set[str] = set()
    seen: set[Digest] = set()

    def visit(digest: Digest) -> None:
        data = store.derivation(digest)
        if digest in seen or data is None:
            return
        seen.add(digest)
        derivation: Derivation = parse(data)
        if "tokenizer" in derivation.arguments:
            found.add(str(derivation.arguments["tokenizer"]))
        for reference in derivation.references():
            visit(reference)

    visit(top)
    return found


def decoder_of(dataset: Dataset) -> Decode | None:
    """A function from ids to text, None if the dataset has no one tokenizer or the store keeps no copy of it."""
    names = fingerprints(dataset.store, dataset.digest)
    if len(names) != 1:
        return None
    (name,) = names
    for source in (str(tokenizer_copy(dataset.store, name)), "bytes"):
        with contextlib.suppress(DsbuildError, OSError):
            tokenizer = registry.load_tokenizer(source, Path())
            if tokenizer.fingerprint.hex == name:
                return tokenizer.decode
    return None
