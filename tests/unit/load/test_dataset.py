"""Datasets against a naive model: lists of tokens, cut and dealt by hand from what is stored."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dsbuild.errors import DsbuildError, LockError
from dsbuild.load import Dataset, RangeError

HEAD = """
dsbuild = 1
name = "load"
seed = 11
[tokenizer]
file = "bytes"
eos = "<eos>"
"""
SOURCE = """
[source.{name}]
files = "{name}/*.jsonl"
part_bytes = 4096
{extra}
handlers = [{{ use = "tokenize" }}]
"""
TAIL = """
[mixture.train]
weights = {{ {weights} }}
[examples]
length = 24
{examples}
"""


def fill(project: Any, *, extra: str = "", examples: str = "", weights: str = "a = 2, b = 1") -> Dataset:
    for name, files in (("a", 7), ("b", 3)):
        for n in range(files):
            rows = [{"text": f"{name}{n}.{k} " + "z" * ((n * 31 + k * 7) % 90)} for k in range(30 + n)]
            project.jsonl(f"{name}/{n}.jsonl", rows)
    sources = "".join(SOURCE.format(name=n, extra=extra) for n in "ab")
    project.write("recipe.toml", HEAD + sources + TAIL.format(weights=weights, examples=examples))
    project.build()
    dataset: Dataset = project.open()
    return dataset


def documents(dataset: Dataset, number: int) -> list[list[list[int]]]:
    """Tokens of the selected records of each part of a source."""
    source, found = dataset.sources[number], []
    for part in range(len(source.records)):
        values, offsets = dataset.store.object(source.records.content(part)).column("input_ids")
        rows = [values[a:b].tolist() for a, b in pairwise(offsets)]
        if source.selection is not None:
            chosen, _ = dataset.store.object(source.selection.content(part)).column("row")
            rows = [rows[i] for i in chosen]
        found.append(rows)
    return found


def windows(parts: list[list[list[int]]], length: int) -> list[list[int]]:
    stream = [t for part in parts for row in part for t in row]
    return [stream[i : i + length + 1] for i in range(0, len(stream) - 1, length)]


def naive(dataset: Dataset, number: int, readers: int = 0) -> list[list[int]]:
    parts = documents(dataset, number)
    if not readers:
        return windows(parts, dataset.shape.length)
    source = dataset.sources[number]
    files = source.records.segment_file[source.records.part_segments[:-1]].tolist()
    queues: dict[int, list[int]] = {}
    for part, file in enumerate(files):
        queues.setdefault(file, []).append(part)
    dealt = []
    while any(queues.values()):
        dealt += [q.pop(0) for _, q in sorted(queues.items()) if q]
    lines = [windows([parts[p] for p in dealt[r::readers]], dataset.shape.length) for r in range(readers)]
    found = []
    while any(lines):
        found += [line.pop(0) for line in lines if line]
    return found


@pytest.mark.parametrize("readers", [0, 1, 3, 50])
@pytest.mark.parametrize("split", ["", "split = { train = 0.6, valid = 0.4 }"])
def test_examples_are_the_windows(project: Any, readers: int, split: str) -> None:
    order = f"order = {{ interleave = {readers} }}" if readers else ""
    dataset = fill(project, extra=f"{split}\n{order}", examples='shuffle = "none"')
    expected = [naive(dataset, n, readers) for n in range(2)]
    assert [s.length for s in dataset.sources] == [len(e) for e in expected]
    taken = [0, 0]
    for index in range(len(dataset)):
        (source,), _, (k,) = dataset.locate([(index, index + 1)])
        assert k == taken[source] % len(expected[source])
        taken[source] += 1
        window = expected[source][k]
        example = dataset.example(index)
        used = min(len(window), 24)
        assert example["input_ids"][:used].tolist() == window[:used]
        assert example["labels"][: len(window) - 1].tolist() == window[1:]
        assert (example["labels"][len(window) - 1 :] == -100).all()
    assert min(t / len(e) for t, e in zip(taken, expected, strict=True)) >= 1  # until = "all"


def test_a_shuffle_is_a_bijection_and_new_each_epoch(project: Any) -> None:
    dataset = fill(project, examples='shuffle = "full"')
    sources, _, indices = dataset.locate([(0, len(dataset))])
    small = int(np.argmin([s.length for s in dataset.sources]))
    n = dataset.sources[small].length
    mine = indices[sources == small]
    assert sorted(mine[:n].tolist()) == list(range(n))
    assert mine[:n].tolist() != list(range(n))
    if len(mine) >= 2 * n:
        assert sorted(mine[n : 2 * n].tolist()) == list(range(n))
        assert mine[n : 2 * n].tolist() != mine[:n].tolist()


def test_document_mask(project: Any) -> None:
    dataset = fill(project, examples='mask = "document"\nshuffle = "none"')
    for index in range(0, len(dataset), 5):
        e = dataset.example(index)
        ids, labels = e["input_ids"].tolist(), e["labels"].tolist()
        segment, position, expected = 1, 0, []
        for i, t in enumerate(ids):
            if e["segment_ids"][i] == 0:
                assert (e["segment_ids"][i:] == 0).all()
                break
            expected.append((segment, position))
            if t == 256:
                assert labels[i] == -100  # the next document's first token is no target
                segment, position = segment + 1, 0
            else:
                position += 1
        got = list(zip(e["segment_ids"].tolist(), e["position_ids"].tolist(), strict=True))[: len(expected)]
        assert got == expected


def test_one_record_one_example(project: Any) -> None:
    with pytest.raises(DsbuildError, match="above length"):
        fill(project, examples='pack = "none"\nshuffle = "none"')
    dataset = fill(project, examples='pack = "none"\noverlong = "cut"\nshuffle = "none"')
    rows = [[r for part in documents(dataset, n) for r in part] for n in range(2)]
    assert [s.length for s in dataset.sources] == [len(r) for r in rows]
    for index in range(len(dataset)):
        (source,), _, (k,) = dataset.locate([(index, index + 1)])
        want = rows[source][k][:25]
        e = dataset.example(index)
        used = min(len(want), 24)
        assert e["input_ids"][:used].tolist() == want[:used]
        assert (e["input_ids"][used:] == 0).all()
        assert e["labels"][: len(want) - 1].tolist() == want[1:]


def test_the_world_changes_nothing(project: Any) -> None:
    dataset = fill(project)
    for step in range(3):
        whole = dataset.batch(step, 12)
        for world in (1, 2, 3, 4, 6, 12):
            parts = [dataset.batch(step, 12, rank, world) for rank in range(world)]
            for name, array in whole.items():
                assert (np.concatenate([p[name] for p in parts]) == array).all()


def test_dtypes_and_columns(project: Any) -> None:
    dataset = fill(project)
    only = dataset.batch(0, 2, columns=("input_ids",), dtype=np.uint16)
    assert list(only) == ["input_ids"]
    assert only["input_ids"].dtype == np.uint16
    with pytest.raises(RangeError):
        dataset.batch(0, 2, columns=("images",))


@pytest.mark.parametrize(
    "arguments", [(10**9, 4), (-1, 4), (0, 0), (0, 5, 0, 2), (0, 4, 2, 2), (0, 4, -1, 2), (0, 4, 0, 0)]
)
def test_out_of_range(project: Any, arguments: tuple[int, ...]) -> None:
    with pytest.raises(RangeError):
        fill(project).batch(*arguments)


def test_loader(project: Any) -> None:
    dataset = fill(project)
    expected = [dataset.batch(step, 8)["input_ids"] for step in range(dataset.steps(8))]
    for prefetch in (0, 1, 3):
        got = [b["input_ids"] for b in dataset.loader(8, prefetch=prefetch)]
        assert len(got) == len(expected)
        assert all((a == b).all() for a, b in zip(got, expected, strict=True))
    loader = dataset.loader(8)
    for _ in range(3):
        next(loader)
    state = loader.state_dict()
    assert len(str(state)) < 200
    resumed = [dataset.loader(8, rank, 2) for rank in (0, 1)]
    for one in resumed:
        one.load_state_dict(state)
    halves = [next(one)["input_ids"] for one in resumed]
    assert (np.concatenate(halves) == expected[3]).all()
    with pytest.raises(LockError):
        loader.load_state_dict(state | {"dataset": "0" * 64})
    with pytest.raises(LockError):
        loader.load_state_dict(state | {"position": -3})
    loader.seek(0)
    assert (next(loader)["input_ids"] == expected[0]).all()
    loader.close()


def test_the_hash_alone_is_enough(project: Any) -> None:
    from dsbuild import open_dataset

    dataset = fill(project)
    found = open_dataset(dataset.digest.hex[:12], store=project.root / "store")
    assert (found.batch(1, 4)["input_ids"] == dataset.batch(1, 4)["input_ids"]).all()
    with pytest.raises(DsbuildError) as caught:
        open_dataset("0" * 64, store=project.root / "store")
    assert caught.value.exit_code == 4
