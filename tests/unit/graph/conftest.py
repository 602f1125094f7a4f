"""Fixtures: recipes instantiated without data, their locks made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.graph import Derivation, Instance, instantiate
from dsbuild.recipe import Lock, LockedFile, LockedLibrary, LockedSource, LockedTokenizer, load_recipe
from dsbuild.schema import Field, Schema

RECIPE: dict[str, Any] = {
    "dsbuild": 1,
    "name": "stream",
    "seed": 7,
    "tokenizer": {"file": "bytes"},
    "source": {
        "a": {"files": "a.txt", "handlers": [{"use": "tokenize"}]},
        "b": {"files": "b.jsonl", "handlers": [{"use": "tokenize"}]},
        "c": {"files": "c.jsonl", "handlers": [{"use": "tokenize"}]},
    },
    "mixture": {"train": {"weights": {"a": 7, "b": 2, "c": 1}}},
    "examples": {"length": 128},
}


def lock_of(recipe: Any) -> Lock:
    """A lock with one file, of its own content, for each pattern of ``recipe``."""
    entries: list[Any] = [LockedLibrary(name="unicode", version_class="14.0.0")]
    for source in recipe.sources.values():
        if source.files:
            entries.append(LockedSource(name=source.name, patterns=source.files))
        for name in source.files:
            digest = of_bytes(Domain.FILE, name.encode())
            entries.append(LockedFile(source=source.name, name=name, pattern=name, id=digest, size=1))
    if recipe.tokenizer is not None:
        tokens = {t: 256 + n for n, t in enumerate(("<bos>", "<eos>", "<pad>"))}
        entries.append(
            LockedTokenizer(
                name=recipe.tokenizer.file,
                id="builtin:bytes@1",
                fingerprint=of_bytes(Domain.FILE, b"tokenizer"),
                size=259,
                tokens=tokens,
            )
        )
    return Lock.of(entries)


@pytest.fixture
def tree() -> Callable[..., dict[str, Any]]:
    """A recipe's tree: the plain one with keys such as ``mixture.train.by`` set, or taken away where None."""

    def make(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(RECIPE))
        for path, value in (changes or {}).items():
            *tables, last = path.split(".")
            table = found
            for name in tables:
                table = table.setdefault(name, {})
            table.pop(last, None)
            if value is not None:
                table[last] = value
        return found

    return make


@pytest.fixture
def instance() -> Callable[[Path], Instance]:
    """The instance of the recipe in a file."""

    def read(path: Path) -> Instance:
        recipe = load_recipe(path)
        return instantiate(recipe, lock_of(recipe))

    return read


@pytest.fixture
def made(tmp_path: Path, tree: Callable[..., dict[str, Any]]) -> Callable[..., Instance]:
    """Instantiates the plain recipe with changes. ``stored``: derivations of other recipes, by digest."""

    def make(changes: Mapping[str, Any] | None = None, stored: Mapping[Digest, bytes] | None = None) -> Instance:
        path = tmp_path / "recipe.json"
        path.write_text(json.dumps(tree(changes)), "utf-8")
        recipe = load_recipe(path)
        return instantiate(recipe, lock_of(recipe), (stored or {}).get)

    return make


@pytest.fixture
def node() -> Callable[..., tuple[str, dict[Digest, bytes]]]:
    """``drv:…`` of a stored node with the given fields, and the store that has it."""

    def make(*fields: Field) -> tuple[str, dict[Digest, bytes]]:
        derivation = Derivation(
            kind="records",
            builder="records@1",
            arguments={"columns": Schema.of(*fields).as_json()},
            inputs=["ab" * 32],
        )
        return f"drv:{derivation.digest.hex}", {derivation.digest: derivation.canonical}

    return make


@pytest.fixture
def parts() -> Callable[[Instance], dict[str, list[Derivation]]]:
    """The derivations of a graph by kind."""

    def find(instance: Instance) -> dict[str, list[Derivation]]:
        found: dict[str, list[Derivation]] = {}
        for derivation in instance.graph.derivations.values():
            found.setdefault(derivation.kind, []).append(derivation)
        return found

    return find
