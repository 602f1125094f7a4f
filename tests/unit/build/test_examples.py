"""What examples can't show of a built view is told by the build, with mixture, source, column and the value seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dsbuild.build import World
from dsbuild.build.examples import check_examples
from dsbuild.digest import Digest
from dsbuild.graph.derivation import Derivation, Graph
from dsbuild.records import Column, Records
from dsbuild.schema import Field, Schema
from dsbuild.store import Manifest, Store

IDS = Field(name="input_ids", dtype="uint16", shape=(None,))
Parts = list[Mapping[str, tuple[Field, list[Any]]]]


def column(field: Field, values: list[Any]) -> Column:
    if field.dtype == "text":
        return Column(values=values)
    if not field.ragged:
        return Column(values=np.array(values, field.dtype))
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    flat = [v for value in values for v in value]
    return Column(values=np.array(flat, field.dtype).reshape(-1, *field.shape[1:]), offsets=offsets)


def publish(store: Store, digest: Digest, parts: Parts) -> None:
    made = []
    for part in parts:
        schema = Schema.of(*(field for field, _ in part.values()))
        columns = {name: column(field, values) for name, (field, values) in part.items()}
        made.append((schema, store.write(schema, [Records(schema=schema, columns=columns)])))
    n, none = len(made), np.zeros(0, np.int64)
    names = made[0][1].elements
    store.publish_manifest(
        Manifest(
            derivation=digest,
            schema=made[0][0],
            actions=np.zeros((n, 32), np.uint8),
            contents=np.array([list(p.content.raw) for _, p in made], np.uint8),
            records=np.array([p.records for _, p in made], np.int64),
            elements={c: np.array([p.elements[c] for _, p in made], np.int64) for c in names},
            longest={c: np.array([p.longest[c] for _, p in made], np.int64) for c in names},
            part_segments=np.zeros(n + 1, np.int64),
            segment_file=none,
            segment_first=none,
        )
    )


def told(project: Any, examples: dict[str, Any], parts: Parts, chosen: list[list[int]] | None = None) -> list[str]:
    """The messages for a dataset of ``parts``; ``chosen``: rows of each part that a split takes."""
    store = project.store
    records = Derivation(kind="records", builder="records@1", inputs=["0" * 64])
    derivations, view = {records.digest: records}, records.digest
    publish(store, records.digest, parts)
    if chosen is not None:
        split = Derivation(kind="split", builder="split@1", inputs=[view.hex])
        derivations[split.digest], view = split, split.digest
        row = Field(name="row", dtype="int64")
        publish(store, view, [{"row": (row, rows)} for rows in chosen])
    mixture = Derivation(kind="mixture", builder="mixture@1", inputs=[view.hex], arguments={"weights": [1]})
    arguments = {"length": 4, "pack": "none", **examples}
    top = Derivation(kind="dataset", builder="dataset@1", inputs={"train": mixture.digest.hex}, arguments=arguments)
    derivations |= {mixture.digest: mixture, top.digest: top}
    graph = Graph(derivations=derivations, labels={view: "source.a"}, output=top.digest)
    found = list(check_examples(World(graph=graph, store=store, files={})))
    assert all(e.diagnostics[0].hint for e in found)
    return [f"{e.kind}: {e}" for e in found]


def tokens(*lengths: int) -> tuple[Field, list[Any]]:
    return IDS, [list(range(n)) for n in lengths]


def ragged(name: str, *lengths: int, dtype: str = "float32") -> dict[str, tuple[Field, list[Any]]]:
    return {name: (Field(name=name, dtype=dtype, shape=(None,)), [[0] * n for n in lengths])}


def test_all_is_well(project: Any) -> None:
    assert told(project, {}, [{"input_ids": tokens(5, 2)}]) == []


def test_too_long(project: Any) -> None:
    parts: Parts = [{"input_ids": tokens(5, 2)}, {"input_ids": tokens(1, 6, 9)}]
    message = "mixture.train: source.a, part 1 has a record of 9 tokens, above length + 1 = 5"
    assert told(project, {}, parts) == [f"record-too-long: {message}"]
    assert told(project, {"overlong": "cut"}, parts) == []
    assert told(project, {"pack": "concat"}, parts) == []


def test_what_a_split_leaves_out_may_be_long(project: Any) -> None:
    parts: Parts = [{"input_ids": tokens(5, 2)}, {"input_ids": tokens(1, 6, 9)}]
    assert told(project, {}, parts, [[0], [0]]) == []


def test_the_longest_of_a_split(project: Any) -> None:
    parts: Parts = [{"input_ids": tokens(5, 2)}, {"input_ids": tokens(1, 6, 9)}]
    message = "mixture.train: source.a, part 1 has a record of 6 tokens, above length + 1 = 5"
    assert told(project, {}, parts, [[0], [0, 1]]) == [f"record-too-long: {message}"]


def test_prefix_needs_labels(project: Any) -> None:
    message = "mixture.train: source.a has no column 'labels', which mask = \"prefix\" needs to find the prefix"
    assert told(project, {"mask": "prefix"}, [{"input_ids": tokens(2)}]) == [f"missing-column: {message}"]


def test_prefix_with_labels(project: Any) -> None:
    parts: Parts = [{"input_ids": tokens(2), **ragged("labels", 2, dtype="int32")}]
    assert told(project, {"mask": "prefix"}, parts) == []


def test_labels_may_be_the_tokens(project: Any) -> None:
    assert told(project, {"columns": ["input_ids", "labels"]}, [{"input_ids": tokens(2)}]) == []


def test_a_column_that_is_not_there(project: Any) -> None:
    found = told(project, {"columns": ["audio", "input_ids"]}, [{"input_ids": tokens(2)}])
    assert found == ["missing-column: mixture.train: source.a has no column 'audio'"]


@pytest.mark.parametrize("pack", ["none", "concat"])
def test_text(project: Any, pack: str) -> None:
    parts: Parts = [{"input_ids": tokens(2), "title": (Field(name="title", dtype="text"), ["a"])}]
    found = told(project, {"pack": pack, "columns": ["input_ids", "title"]}, parts)
    assert found == ["bad-type: mixture.train: source.a, column 'title' is text: examples have numbers only"]


def test_shapes(project: Any) -> None:
    parts: Parts = [{"input_ids": tokens(2, 2), **ragged("audio", 7, 3)}]
    examples: dict[str, Any] = {"columns": ["audio"]}
    message = "column 'audio' differs in length from record to record (at most 7)"
    assert told(project, examples, parts) == [f"bad-type: mixture.train: source.a, {message}"]
    assert told(project, examples | {"shapes": {"audio": 7}}, parts) == []
    message = "mixture.train: source.a, part 0 has a record of 7 values in column 'audio', above pad.audio = 6"
    assert told(project, examples | {"shapes": {"audio": 6}}, parts) == [f"record-too-long: {message}"]
    assert told(project, examples | {"shapes": {"audio": 6}, "overlong": "cut"}, parts) == []


def test_fixed_shapes_need_nothing(project: Any) -> None:
    image = Field(name="image", dtype="uint8", shape=(2, 2))
    parts: Parts = [{"image": (image, [[[1, 2], [3, 4]]])}]
    assert told(project, {"columns": ["image"]}, parts) == []


@pytest.mark.parametrize("pack", ["concat", "fit"])
def test_columns_beside_the_tokens(project: Any, pack: str) -> None:
    parts: Parts = [
        {"input_ids": tokens(2, 3), **ragged("loss", 2, 3)},
        {"input_ids": tokens(2, 3), **ragged("loss", 2, 2)},
    ]
    examples = {"pack": pack, "columns": ["input_ids", "loss"]}
    message = "part 1: column 'loss' has 4 values for 5 tokens"
    assert told(project, examples, parts) == [f"bad-value: mixture.train: source.a, {message}"]


def test_scalars_beside_the_tokens(project: Any) -> None:
    parts: Parts = [{"input_ids": tokens(2), "rank": (Field(name="rank", dtype="int32"), [1])}]
    found = told(project, {"pack": "fit", "columns": ["rank"]}, parts)
    assert found == ["bad-type: mixture.train: source.a, column 'rank' has shape []: it needs one value for each token"]


def test_no_example(project: Any) -> None:
    found = told(project, {}, [{"input_ids": tokens()}], [[]])
    assert found == ["empty: mixture.train: source.a gives no example (0 records)"]
