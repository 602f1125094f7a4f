"""Leaks through files: two sources that name the same content feed two mixtures only where nothing can leak."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import RecipeError
from dsbuild.graph import Derivation, instantiate
from dsbuild.graph.chain import Mistakes
from dsbuild.graph.origins import check_leaks
from dsbuild.recipe import Lock, LockedFile, LockedLibrary, LockedSource, LockedTokenizer, load_recipe
from dsbuild.schema import Field, Schema

SPLIT = {"split": {"train": 0.5, "valid": 0.5}}
NONE: dict[str, Any] = {}
KEEP = {"handlers": [{"use": "keep", "where": "len(text) > 3"}, {"use": "tokenize"}]}


def told(
    tmp_path: Path,
    sources: dict[str, dict[str, Any]],
    train: str,
    valid: str,
    contents: dict[str, bytes] | None = None,
    stored: dict[Digest, bytes] | None = None,
) -> list[tuple[str, str, str | None]]:
    """The mistakes of a recipe in which ``train`` and ``valid`` (names) are the mixtures of ``sources``."""
    tree = {
        "dsbuild": 1,
        "name": "x",
        "examples": {"length": 8, "pack": "none", "columns": ["input_ids"]},
        "tokenizer": {"file": "bytes"},
        "source": {n: {"handlers": [{"use": "tokenize"}], **s} for n, s in sources.items()},
        "mixture": {
            "train": {"weights": dict.fromkeys(train.split(), 1)},
            "valid": {"weights": dict.fromkeys(valid.split(), 1)},
        },
    }
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(tree), "utf-8")
    try:
        recipe = load_recipe(path)
        instantiate(recipe, lock_of(recipe, contents or {}), (stored or {}).get)
    except RecipeError as error:
        assert all(d.where is not None and d.where.line for d in error.diagnostics)
        return [(d.kind, d.message, d.hint) for d in error.diagnostics]
    return []


def lock_of(recipe: Any, contents: dict[str, bytes]) -> Lock:
    entries: list[Any] = [LockedLibrary(name="unicode", version_class="14.0.0")]
    fingerprint = of_bytes(Domain.FILE, b"tokenizer")
    entries.append(LockedTokenizer(name="bytes", id="builtin:bytes@1", fingerprint=fingerprint, size=259, tokens={}))
    for source in recipe.sources.values():
        if source.files:
            entries.append(LockedSource(name=source.name, patterns=source.files))
        for name in source.files:
            data = contents.get(name, name.encode())
            digest = of_bytes(Domain.FILE, data)
            entries.append(LockedFile(source=source.name, name=name, pattern=name, id=digest, size=len(data)))
    return Lock.of(entries)


BIG = {"files": "big.jsonl"}


@pytest.mark.parametrize(
    ("sources", "train", "valid", "message"),
    [
        ({"z": BIG, "y": BIG}, "z", "y", "source 'y' has records of 'z' (big.jsonl), which feeds 'train'"),
        ({"z": BIG, "y": BIG | SPLIT}, "z", "y", "and not the same splits"),
        ({"z": BIG, "y": BIG | KEEP}, "z", "y", "source 'y' has records of 'z'"),
        ({"z": {"files": ["a.jsonl", "big.jsonl"]}, "y": {"files": ["big.jsonl", "c.jsonl"]}}, "z", "y", "(big.jsonl)"),
        ({"z": BIG, "y": {"files": "copy.jsonl"}}, "z", "y", "(copy.jsonl is its big.jsonl)"),
        ({"z": BIG, "y": BIG, "x": {"from": "y"} | KEEP}, "z", "x", "source 'x' has records of 'z' (big.jsonl)"),
        ({"z": BIG, "y": BIG, "c": {"files": "c.jsonl"}}, "z c", "y", "source 'y' has records of 'z'"),
        (
            {
                "z": BIG | {"split": {"train": 0.5, "valid": 9}},
                "y": BIG | KEEP | {"split": {"train": 0.5, "valid": 9}},
            },
            "z",
            "y",
            "equal counts of two sources take other records",
        ),
        # a record of one is a line, of the other the file: their keys are not the same
        (
            {"z": BIG | SPLIT | {"format": "text"}, "y": BIG | SPLIT},
            "z",
            "y",
            "equal splits of files read in other ways take other records",
        ),
    ],
)
def test_leaks(tmp_path: Path, sources: Any, train: str, valid: str, message: str) -> None:
    contents = {"copy.jsonl": b"big.jsonl"}
    (found,) = told(tmp_path, sources, train, valid, contents)
    assert found[0] == "leak"
    assert message in found[1] and found[1].startswith(f"mixture.valid.weights.{valid}: ")
    assert found[2] is not None and "shared = true" in found[2]


@pytest.mark.parametrize(
    ("sources", "train", "valid"),
    [
        ({"z": BIG, "y": {"files": "c.jsonl"}}, "z", "y"),
        ({"z": BIG | SPLIT, "y": BIG | SPLIT | KEEP}, "z", "y"),
        ({"z": BIG, "y": BIG | {"shared": True}}, "z", "y"),
        ({"z": BIG | {"shared": True}, "y": BIG}, "z", "y"),
        # within one mixture
        ({"z": BIG, "y": BIG | KEEP, "c": {"files": "c.jsonl"}}, "z y", "c"),
        # without a byte there is nothing to leak
        ({"z": {"files": ["a.jsonl", "none.jsonl"]}, "y": {"files": ["c.jsonl", "none.jsonl"]}}, "z", "y"),
        ({"z": BIG | SPLIT | {"format": "jsonl"}, "y": BIG | SPLIT | KEEP}, "z", "y"),
        # what else comes of a source is no matter
        ({"z": BIG | SPLIT, "w": {"files": "w.txt"}, "y": {"from": ["z", "w"]} | SPLIT}, "z", "y"),
    ],
)
def test_no_leaks(tmp_path: Path, sources: Any, train: str, valid: str) -> None:
    assert told(tmp_path, sources, train, valid, {"none.jsonl": b""}) == []


def test_a_node_of_another_recipe_rests_on_files_too(tmp_path: Path) -> None:
    files = Derivation(
        kind="source", builder="jsonl@1", inputs=[f"b3:{of_bytes(Domain.FILE, b'big.jsonl').hex}"], arguments={}
    )
    columns = Schema.of(Field(name="input_ids", dtype="uint16", shape=(None,)))
    records = Derivation(
        kind="records", builder="records@1", inputs=[files.digest.hex], arguments={"columns": columns.as_json()}
    )
    stored = {d.digest: d.canonical for d in (files, records)}
    other = {"from": f"drv:{records.digest.hex}", "handlers": []}
    (found,) = told(tmp_path, {"z": BIG, "y": other}, "z", "y", stored=stored)
    assert found[0] == "leak" and "source 'y' has records of 'z'" in found[1]
    assert told(tmp_path, {"z": {"files": "c.jsonl"}, "y": other}, "z", "y", stored=stored) == []


def test_many_files_cost_little(tmp_path: Path) -> None:
    sources = {f"s{n}": {"files": [f"{n}/{k}.jsonl" for k in range(10)]} for n in range(1000)}
    path = tmp_path / "recipe.json"
    half = {f"s{n}": 1 for n in range(500)}
    rest = {f"s{n}": 1 for n in range(500, 1000)}
    examples = {"length": 8, "pack": "none", "columns": ["text"]}
    tree = {"dsbuild": 1, "name": "x", "examples": examples, "source": sources}
    path.write_text(json.dumps(tree | {"mixture": {"train": {"weights": half}, "valid": {"weights": rest}}}), "utf-8")
    recipe = load_recipe(path)
    ids = [of_bytes(Domain.FILE, str(n).encode()).hex for n in range(10000)]
    files = {
        f"s{n}": [Derivation(kind="source", builder="jsonl@1", inputs=[f"b3:{i}" for i in ids[n * 10 : n * 10 + 10]])]
        for n in range(1000)
    }
    mistakes = Mistakes()
    start = time.process_time()
    check_leaks(recipe, Lock(), files, lambda _: None, mistakes)
    assert time.process_time() - start < 1
    assert mistakes.found == []
