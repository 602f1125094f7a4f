"""Further columns: scalars, fixed shapes, padded ragged ones of single records; aligned ones cut with the tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dsbuild.errors import BuildError, CorruptError, NotFoundError
from dsbuild.load import Dataset, RangeError
from dsbuild.schema import Field

IDS = Field(name="input_ids", dtype="uint16", shape=(None,))


def field(name: str, dtype: str, *shape: int | None) -> Field:
    return Field(name=name, dtype=dtype, shape=shape)


def every(dataset: Dataset, **options: Any) -> dict[str, np.ndarray]:
    return dataset.examples(0, len(dataset), **options)


def records(count: int = 12) -> dict[str, Any]:
    """Columns of every kind, made of the number of the record."""
    lengths = [n % 4 for n in range(count)]
    return {
        "input_ids": (IDS, [[n] * (k + 1) for n, k in enumerate(lengths)]),
        "score": (field("score", "float64"), [n / 4 for n in range(count)]),
        "flag": (field("flag", "bool"), [n % 2 == 0 for n in range(count)]),
        "image": (field("image", "uint8", 2, 3), [np.full((2, 3), n).tolist() for n in range(count)]),
        "audio": (field("audio", "float32", None), [[n + i / 8 for i in range(k)] for n, k in enumerate(lengths)]),
        "boxes": (field("boxes", "int16", None, 2), [[[n, -i] for i in range(k)] for n, k in enumerate(lengths)]),
    }


def padded(values: Any, length: int, *inner: int) -> np.ndarray:
    out = np.zeros((len(values), length, *inner))
    for row, value in enumerate(values):
        if value:
            out[row, : min(len(value), length)] = value[:length]
    return out


@pytest.mark.parametrize("way", ["all", "split", "dropped"])
def test_of_single_records(shelf: Any, way: str) -> None:
    made = records()
    parts = [{name: (f, values[a:b]) for name, (f, values) in made.items()} for a, b in ((0, 5), (5, 5), (5, 12))]
    view, kept = shelf.records(parts), list(range(12))
    if way == "split":
        view, kept = shelf.split(view, [[0, 3], [], [1, 2, 6]]), [0, 3, 6, 7, 11]
    if way == "dropped":
        view, kept = shelf.pack(view, [[[1], [4]], [], [[0], [3], [5]]], 4), [1, 4, 5, 8, 10]
    names = sorted(made)
    dataset = shelf.dataset(
        view, pack="none", length=4, columns=names, shapes={"audio": 3, "boxes": 2}, overlong="drop", shuffle="full"
    )
    assert len(dataset) == len(kept)
    assert dataset.shape.given == ("input_ids", "labels", "audio", "boxes", "flag", "image", "score")
    _, _, order = dataset.locate([(0, len(dataset))])
    rows = [kept[n] for n in order.tolist()]
    got = every(dataset)
    for name, inner in (("score", ()), ("flag", ()), ("image", (2, 3))):
        f, values = made[name]
        assert got[name].dtype == np.dtype(f.dtype) and got[name].shape == (len(rows), *inner)
        assert got[name].tolist() == [values[row] for row in rows]
    for name, length, inner in (("audio", 3, ()), ("boxes", 2, (2,))):
        f, values = made[name]
        assert got[name].dtype == np.dtype(f.dtype)
        assert (got[name] == padded([values[row] for row in rows], length, *inner)).all()
    assert got["input_ids"][:, 0].tolist() == rows
    one = dataset.example(0)
    assert one["image"].shape == (2, 3) and one["score"].shape == () and one["audio"].shape == (3,)


def test_without_tokens(shelf: Any) -> None:
    made = records()
    made.pop("input_ids")
    dataset = shelf.dataset(shelf.records([made]), pack="none", columns=["audio", "image"], shapes={"audio": 2})
    got = every(dataset)
    assert list(got) == ["audio", "image"]
    assert got["image"].tolist() == made["image"][1]
    assert (got["audio"] == padded(made["audio"][1], 2)).all()
    with pytest.raises(RangeError, match="this dataset gives audio, image"):
        dataset.batch(0, 2, columns="input_ids")
    with dataset.loader(4, threads=2) as loader:
        assert sum(len(batch["image"]) for batch in loader) == 12


def aligned(count: int, *inner: int, dtype: str = "int16", first: int = 0) -> dict[str, Any]:
    """Records of tokens with a further value (of shape ``inner``) a token, which is minus the token."""
    sizes = [(n * 7) % 11 for n in range(count)]
    ends = np.cumsum([0, *sizes]).tolist()
    tokens = [list(range(first + a, first + b)) for a, b in pairwise(ends)]
    f = field("extra", dtype, None, *inner)
    return {"input_ids": (IDS, tokens), "extra": (f, [[np.full(inner, -t).tolist() for t in row] for row in tokens])}


@pytest.mark.parametrize("inner", [(), (3,), (2, 2)])
@pytest.mark.parametrize("pack", ["concat", "fit"])
@pytest.mark.parametrize("split", [False, True])
def test_aligned_with_the_tokens(shelf: Any, inner: tuple[int, ...], pack: str, split: bool) -> None:
    view = shelf.records([aligned(20, *inner), aligned(9, *inner, first=500), aligned(0, *inner)])
    rows = [[n for n in range(20) if n % 5], [n for n in range(9) if n % 3], []]
    if split:
        view = shelf.split(view, rows)
    if pack == "fit":
        view = shelf.pack(view, [[[a, b] for a, b in zip(r[::2], r[1::2], strict=False)] for r in rows], 16)
    for shuffle in ("none", "full"):
        dataset = shelf.dataset(view, length=16, pack=pack, columns=["extra", "input_ids"], shuffle=shuffle)
        got = every(dataset)
        assert list(got) == ["input_ids", "labels", "extra"]
        assert got["extra"].shape == (len(dataset), 16, *inner) and got["extra"].dtype == np.int16
        ids = got["input_ids"].reshape(len(dataset), 16, *[1] * len(inner))
        assert (got["extra"] == -ids).all()
        halves = [dataset.batch(1, 2, rank, 2)["extra"] for rank in range(2)]
        assert (np.concatenate(halves) == got["extra"][2:4]).all()


def test_one_dtype_whatever_sources_a_batch_has(shelf: Any) -> None:
    """The widest of all sources: else ranks would differ."""
    narrow, wide = shelf.records([aligned(20)]), shelf.records([aligned(20, dtype="int32")])
    dataset = shelf.dataset(narrow, wide, length=16, columns=["extra", "input_ids"])
    for row in range(len(dataset)):
        got = dataset.examples(row, row + 1)
        assert got["extra"].dtype == np.int32
        assert (got["extra"] == -got["input_ids"]).all()
    assert dataset.examples(2, 2)["extra"].dtype == np.int32
    one, two = records(), records()
    two["score"] = (field("score", "float32"), one["score"][1])
    dataset = shelf.dataset(shelf.records([two]), shelf.records([one]), pack="none", columns=["input_ids", "score"])
    dtypes = {dataset.examples(row, row + 1)["score"].dtype for row in range(len(dataset))}
    assert dtypes == {np.dtype("float64")}


def test_sources_that_do_not_fit_together(shelf: Any) -> None:
    one, two, none = records(), records(), records()
    two["image"] = (field("image", "uint8", 3, 2), [np.full((3, 2), n).tolist() for n in range(12)])
    none.pop("image")
    views = [shelf.records([part]) for part in (one, two, none)]
    columns = {"pack": "none", "columns": ["image", "input_ids"]}
    with pytest.raises(
        BuildError, match=r"column 'image' has shape \[.*\] in source [0-9a-f]{12} and \[.*\] in source"
    ):
        shelf.dataset(*views[:2], **columns).batch(0, 2)
    with pytest.raises(NotFoundError, match=r"source [0-9a-f]{12}: gives no column 'image'"):
        shelf.dataset(views[0], views[2], **columns)


def test_columns_that_can_not_be_served(shelf: Any) -> None:
    made = {**records(), "text": (Field(name="text", dtype="text"), [str(n) for n in range(12)])}
    view = shelf.records([made])
    with pytest.raises(NotFoundError, match="gives no column 'text' of numbers"):
        shelf.dataset(view, pack="none", columns=["input_ids", "text"], shapes={"text": 3})
    with pytest.raises(CorruptError, match="part 0: column 'score' has no offsets"):
        shelf.dataset(view, columns=["input_ids", "score"]).batch(0, 2)
    with pytest.raises(BuildError, match="record 0: column 'audio' has 0 values for 1 tokens"):
        shelf.dataset(view, columns=["audio", "input_ids"]).batch(0, 2)
