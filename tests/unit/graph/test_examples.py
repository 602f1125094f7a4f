"""Columns of examples: which are kept in the store, and which can't be served, told before any record is read."""

from __future__ import annotations

from typing import Any

import pytest

from dsbuild.errors import RecipeError
from dsbuild.schema import Field

INPUT = Field(name="input_ids", dtype="uint16", shape=(None,))
LABELS = Field(name="labels", dtype="int32", shape=(None,))
AUDIO = Field(name="audio", dtype="float32", shape=(None, 80))
IMAGE = Field(name="image", dtype="uint8", shape=(32, 32, 3))
SCORE = Field(name="score", dtype="float64")
TITLE = Field(name="title", dtype="text")
NOTES = Field(name="notes", dtype="json")
ALL = (INPUT, LABELS, AUDIO, IMAGE, SCORE, TITLE, NOTES)


def of(name: str, examples: dict[str, Any]) -> dict[str, Any]:
    """A recipe of one source, a node of another recipe."""
    return {
        "source": {"a": {"from": name}},
        "mixture.train.weights": {"a": 1},
        "examples": {"length": 128, **examples},
    }


@pytest.mark.parametrize(
    ("examples", "kept"),
    [
        ({}, {"input_ids", "labels"}),
        ({"pack": "fit"}, {"input_ids", "labels"}),
        ({"mask": "prefix", "pack": "fit"}, {"input_ids", "labels"}),
        ({"columns": ["input_ids"]}, {"input_ids"}),
        ({"columns": ["input_ids"], "pack": "fit", "mask": "prefix"}, {"input_ids", "labels"}),
        ({"columns": ["audio"]}, {"input_ids", "audio"}),
        ({"columns": ["audio"], "pack": "none", "pad": {"audio": 9}}, {"audio"}),
        ({"columns": ["image", "score"], "pack": "none"}, {"image", "score"}),
        ({"columns": ["labels"], "pack": "fit"}, {"input_ids", "labels"}),
        ({"columns": ["score", "input_ids"], "pack": "none"}, {"input_ids", "score"}),
        ({"columns": ["input_ids", "notes"], "pack": "none"}, {"input_ids", "notes"}),
        ({"columns": ["input_ids", "notes"], "pack": "none", "pad": {"notes": 7}}, {"input_ids", "notes"}),
    ],
)
def test_kept(made: Any, node: Any, parts: Any, examples: dict[str, Any], kept: set[str]) -> None:
    name, stored = node(*ALL)
    instance = made(of(name, examples), stored)
    (records,) = parts(instance)["records"]
    assert set(records.arguments["columns"]) == kept
    (dataset,) = parts(instance)["dataset"]
    assert dataset.arguments.get("columns", []) == sorted(examples.get("columns", []))
    assert dataset.arguments.get("shapes", {}) == examples.get("pad", {})


@pytest.mark.parametrize(
    ("examples", "kind", "key", "told"),
    [
        ({"columns": ["input_ids", "title"]}, "bad-type", "columns", "text"),
        ({"columns": ["title"], "pack": "none"}, "bad-type", "columns", "a handler must make numbers"),
        ({"columns": ["input_ids", "score"]}, "conflict", "columns", 'pack = "none"'),
        ({"columns": ["input_ids", "image"], "pack": "fit"}, "conflict", "columns", "uint8[32, 32, 3]"),
        ({"columns": ["audio"], "pack": "none"}, "missing-key", "columns", "pad = { audio"),
        ({"columns": ["audio", "score"], "pack": "none", "pad": {"score": 3}}, "missing-key", "columns", "length"),
        ({"columns": ["score"], "pack": "none", "pad": {"score": 3}}, "conflict", "pad", "float64"),
        ({"columns": ["nothing"], "pack": "none"}, "missing-column", "columns", "columns there: audio"),
    ],
)
def test_refused(made: Any, node: Any, examples: dict[str, Any], kind: str, key: str, told: str) -> None:
    name, stored = node(*ALL)
    with pytest.raises(RecipeError) as caught:
        made(of(name, examples), stored)
    first = caught.value.diagnostics[0]
    assert first.kind == kind
    assert told in f"{first.message} {first.hint}"
    assert first.message.startswith(f"examples.{key}: ")
    assert first.where is not None and first.where.column is not None


@pytest.mark.parametrize(
    ("fields", "examples", "told"),
    [
        ((LABELS,), {}, "'input_ids'"),
        ((INPUT,), {"columns": ["input_ids", "labels"]}, "'labels'"),
        ((INPUT,), {"pack": "fit", "mask": "prefix"}, "'labels'"),
        ((INPUT,), {"pack": "fit", "mask": "prefix"}, "before the first label"),
        ((Field(name="input_ids", dtype="text"),), {}, "'input_ids'"),
        ((Field(name="input_ids", dtype="float32", shape=(None,)),), {}, "'input_ids'"),
        ((Field(name="input_ids", dtype="int64"),), {}, "'input_ids'"),
        ((Field(name="input_ids", dtype="json"),), {}, "'input_ids'"),
    ],
)
def test_no_tokens(made: Any, node: Any, fields: tuple[Field, ...], examples: dict[str, Any], told: str) -> None:
    name, stored = node(*fields)
    with pytest.raises(RecipeError) as caught:
        made(of(name, examples), stored)
    (only,) = caught.value.diagnostics
    assert only.kind == "missing-column"
    assert told in f"{only.message} {only.hint}"


def test_labels_of_other_types_are_no_default(made: Any, node: Any, parts: Any) -> None:
    name, stored = node(INPUT, Field(name="labels", dtype="text"))
    (records,) = parts(made(of(name, {}), stored))["records"]
    assert set(records.arguments["columns"]) == {"input_ids"}


@pytest.mark.parametrize("other", [Field(name="audio", dtype="float32", shape=(None, 128)), AUDIO])
def test_one_batch_has_one_type_of_a_column(made: Any, node: Any, other: Field) -> None:
    (one, stored), (two, more) = node(INPUT, AUDIO), node(INPUT, other, SCORE)
    changes = {
        **of(one, {"pack": "none", "columns": ["audio", "input_ids"], "pad": {"audio": 9}}),
        "source": {"a": {"from": one}, "b": {"from": two}},
        "mixture.train": {"stages": [{"from": 0, "weights": {"a": 1}}, {"from": 9, "weights": {"b": 1}}]},
    }
    if other == AUDIO:
        made(changes, stored | more)
        return
    with pytest.raises(RecipeError) as caught:
        made(changes, stored | more)
    (only,) = caught.value.diagnostics
    assert only.kind == "conflict"
    assert "float32[any, 128] in source.b and float32[any, 80] in source.a, and 'train' mixes them" in only.message


def test_a_column_of_files_passes_until_the_build(made: Any, parts: Any) -> None:
    """What JSON Lines hold is not known before they are read."""
    changes = {
        "mixture.train.weights": {"b": 1},
        "examples": {"length": 8, "pack": "none", "columns": ["input_ids", "x"]},
    }
    (records,) = parts(made(changes))["records"]
    assert records.arguments["columns"]["x"] == {"dtype": "json", "shape": []}
    changes["mixture.train.weights"] = {"a": 1}
    with pytest.raises(RecipeError, match=r"source\.a gives no column 'x'"):
        made(changes)
