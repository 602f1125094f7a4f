"""Arrays of batches: their dtypes, whatever is stored, labels of records and of tokens, and shares without rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsbuild.errors import BuildError, DsbuildError
from dsbuild.load import Dataset, RangeError
from dsbuild.schema import Field


def ids(dtype: str) -> Field:
    return Field(name="input_ids", dtype=dtype, shape=(None,))


def labels(dtype: str) -> Field:
    return Field(name="labels", dtype=dtype, shape=(None,))


def rows(first: int, count: int = 6, size: int = 5) -> list[list[int]]:
    return [list(range(first + n * size, first + (n + 1) * size)) for n in range(count)]


def seen(dataset: Dataset, name: str, **options: Any) -> set[int]:
    return set(dataset.examples(0, len(dataset), **options)[name].ravel().tolist())


@pytest.mark.parametrize("pack", ["concat", "none"])
@pytest.mark.parametrize("stored", ["uint16", "uint32", "int32", "int64", "uint8"])
@pytest.mark.parametrize("wanted", ["uint16", "uint32", "int32", "int64"])
def test_dtypes(shelf: Any, pack: str, stored: str, wanted: str) -> None:
    values = rows(3)
    dataset = shelf.dataset(shelf.records([{"input_ids": (ids(stored), values)}]), pack=pack)
    if wanted == "uint16" and stored not in ("uint16", "uint8"):
        with pytest.raises(
            RangeError, match=rf"dtype uint16: does not hold every token id of this dataset \({stored}\)"
        ):
            dataset.batch(0, 2, dtype=wanted)
        with pytest.raises(RangeError):
            dataset.loader(2, dtype=wanted)
        return
    batch = dataset.examples(0, len(dataset), dtype=wanted)
    assert batch["input_ids"].dtype == np.dtype(wanted)
    assert batch["labels"].dtype == (np.int64 if wanted == "int64" else np.int32)
    assert {v for row in values for v in row} >= set(batch["input_ids"].ravel().tolist()) - {0}
    assert batch["input_ids"].flags.c_contiguous and batch["input_ids"].flags.writeable
    same = dataset.examples(0, len(dataset))
    assert all((batch[n] == same[n]).all() for n in batch)


@pytest.mark.parametrize("stored", ["uint16", "int32", "int64"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("pack", ["concat", "none"])
def test_arrays_share_no_memory(shelf: Any, stored: str, own: bool, pack: str) -> None:
    """Also where nothing need be cast, and a batch has one row: what is written in one array is in no other."""
    part: dict[str, Any] = {"input_ids": (ids(stored), rows(3, 3, 7))}
    if own:
        part["labels"] = (labels(stored.removeprefix("u")), rows(3, 3, 7))
    dataset = shelf.dataset(shelf.records([part]), pack=pack, mask="document", pad=9_999)
    for dtype in ("int32", "int64"):
        whole = dataset.examples(0, len(dataset), dtype=dtype)
        assert {9_999} == set(whole["input_ids"][-1].tolist()) - set(range(3, 24))
        assert -100 not in whole["input_ids"] and 9_999 not in whole["labels"]
        for at in range(len(dataset)):
            one = dataset.examples(at, at + 1, dtype=dtype)
            assert all((one[n][0] == whole[n][at]).all() for n in whole)
            for name, array in one.items():
                before = {n: a.copy() for n, a in one.items() if n != name}
                array.fill(77)
                assert all((one[n] == before[n]).all() for n in before)
        assert all((dataset.examples(0, len(dataset), dtype=dtype)[n] == whole[n]).all() for n in whole)


@pytest.mark.parametrize(
    "wanted", ["uint8", "int16", "float32", "float64", "bool", "datetime64[s]", "U4", "nonsense", 3.5]
)
def test_dtypes_that_hold_no_ids(shelf: Any, wanted: Any) -> None:
    dataset = shelf.dataset(shelf.records([{"input_ids": (ids("uint16"), rows(3))}]))
    with pytest.raises(RangeError, match="dtype"):
        dataset.batch(0, 2, dtype=wanted)


@pytest.mark.parametrize(
    ("stored", "value", "wanted"),
    [("uint32", 1 << 31, "int32"), ("int64", 1 << 40, "int32"), ("int64", 1 << 40, "uint32"), ("int32", -1, "uint32")],
)
def test_values_that_do_not_fit(shelf: Any, stored: str, value: int, wanted: str) -> None:
    values = [*rows(3), [7, value, 8], *rows(50)]
    dataset = shelf.dataset(shelf.records([{"input_ids": (ids(stored), values)}]), length=8)
    with pytest.raises(BuildError, match=rf"part 0, record 6: column 'input_ids' has {value}, .*{wanted}") as caught:
        dataset.examples(0, len(dataset), dtype=wanted, columns="input_ids")
    assert caught.value.kind == "bad-value"
    assert value in seen(dataset, "input_ids", dtype="int64")
    dataset.examples(0, 2, dtype=wanted)  # the others do


def test_the_pad_token_must_fit_too(shelf: Any) -> None:
    dataset = shelf.dataset(shelf.records([{"input_ids": (ids("uint16"), rows(3))}]), pack="none", pad=70_000)
    with pytest.raises(RangeError, match="uint16"):
        dataset.batch(0, 2, dtype="uint16")
    assert dataset.batch(0, 2)["input_ids"][0].tolist() == [3, 4, 5, 6, 7, 70_000, 70_000, 70_000]


@pytest.mark.parametrize("pack", ["concat", "none"])
@pytest.mark.parametrize("mask", ["none", "document"])
def test_sources_of_different_dtypes(shelf: Any, pack: str, mask: str) -> None:
    """Whole rows and rows of several pieces, of two dtypes in one batch, in any order."""
    first = [rows(0, 9, 7), rows(100, 4, 30)]
    second = [rows(70_000, 5, 40), rows(80_000, 9, 3)]
    one = shelf.records([{"input_ids": (ids("uint16"), r)} for r in first])
    two = shelf.records([{"input_ids": (ids("uint32"), r)} for r in second])
    for shuffle in ("none", "full"):
        dataset = shelf.dataset(one, two, pack=pack, mask=mask, shuffle=shuffle, overlong="cut")
        alone = [shelf.dataset(v, pack=pack, mask=mask, overlong="cut") for v in (one, two)]
        alone.sort(key=lambda d: d.sources[0].digest.hex)
        batch = dataset.examples(0, len(dataset))
        sources, _, examples = dataset.locate([(0, len(dataset))])
        for at, (source, example) in enumerate(zip(sources.tolist(), examples.tolist(), strict=True)):
            want = alone[source].example(example)
            assert all((batch[n][at] == want[n]).all() for n in want)
        with pytest.raises(RangeError, match=r"\(uint16, uint32\)"):
            dataset.batch(0, 2, dtype="uint16")


@pytest.mark.parametrize("pack", ["concat", "none"])
def test_labels_in_one_source_only(shelf: Any, pack: str) -> None:
    values = rows(10)
    loss = [[v if v % 3 else -100 for v in row] for row in values]
    one = shelf.records([{"input_ids": (ids("uint16"), values), "labels": (labels("int64"), loss)}])
    two = shelf.records([{"input_ids": (ids("uint32"), rows(1000))}])
    dataset = shelf.dataset(one, two, pack=pack, length=5)
    batch = dataset.examples(0, len(dataset))
    for inputs, targets in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        after = [*inputs[1:], inputs[-1] + 1]
        for token, target in zip(after, targets, strict=True):
            if target == -100:
                assert token % 3 == 0 or token in (0, inputs[-1] + 1)
            else:
                assert target == token and (token >= 1000 or token % 3)
    for rank in range(2):  # whatever sources a rank sees, the arrays are alike
        part = dataset.batch(0, 2, rank, 2)
        assert {n: (a.dtype, a.shape) for n, a in part.items()} == {n: (a.dtype, (1, 5)) for n, a in batch.items()}


def test_labels_that_the_recipe_does_not_name(shelf: Any) -> None:
    """``columns`` without labels: every token is a target, though the records have labels of their own."""
    values = rows(10)
    none = [[-100] * 5 for _ in values]
    at = shelf.records([{"input_ids": (ids("uint16"), values), "labels": (labels("int32"), none)}])
    for pack in ("concat", "none"):
        assert seen(shelf.dataset(at, pack=pack), "labels") == {-100}
        assert seen(shelf.dataset(at, pack=pack, columns=["input_ids", "labels"]), "labels") == {-100}
        assert len(seen(shelf.dataset(at, pack=pack, columns=["input_ids"]), "labels")) > 10


def test_labels_wider_than_int32(shelf: Any) -> None:
    values = [[1, 2, 1 << 33, 4]]
    at = shelf.records([{"input_ids": (ids("uint16"), [[1, 2, 3, 4]]), "labels": (labels("int64"), values)}])
    dataset = shelf.dataset(at, length=3)
    with pytest.raises(BuildError, match=rf"record 0: column 'labels' has {1 << 33}"):
        dataset.batch(0, 1)
    assert dataset.batch(0, 1, dtype=np.int64)["labels"].tolist() == [[2, 1 << 33, 4]]


@pytest.mark.parametrize(
    ("pack", "mask"),
    [("concat", "none"), ("concat", "document"), ("fit", "none"), ("fit", "prefix"), ("none", "prefix")],
)
def test_shares_without_rows(shelf: Any, pack: str, mask: str) -> None:
    field = Field(name="extra", dtype="float32", shape=(None, 2))
    extra = [[[v, -v] for v in row] for row in rows(10)]
    parts = [{"input_ids": (ids("uint16"), rows(10)), "labels": (labels("int32"), rows(10)), "extra": (field, extra)}]
    at = shelf.records(parts)
    at = shelf.pack(at, [[[n] for n in range(6)]], 8) if pack == "fit" else at
    shapes = {"shapes": {"extra": 6}} if pack == "none" else {}
    dataset = shelf.dataset(at, pack=pack, mask=mask, columns=["extra", "input_ids", "labels"], **shapes)
    names = dataset.shape.known
    full, empty = dataset.examples(0, 2, columns=names), dataset.examples(1, 1, columns=names)
    assert list(full) == list(empty)
    for name, array in empty.items():
        assert array.dtype == full[name].dtype
        assert array.shape == ((1,) if name == "cu_seqlens" else (0, *full[name].shape[1:]))
    with dataset.loader(2, 0, 5, uneven=True) as loader:
        assert [len(batch["input_ids"]) for batch in loader] == [0] * dataset.steps(2)


def test_columns_as_asked_for(shelf: Any) -> None:
    dataset = shelf.dataset(shelf.records([{"input_ids": (ids("uint16"), rows(3))}]), mask="document")
    for names in (["labels"], ["position_ids", "input_ids"], ["cu_seqlens"], ["segment_ids", "labels"], []):
        got = dataset.batch(0, 2, columns=names)
        assert list(got) == names
        whole = dataset.batch(0, 2, columns=dataset.shape.known)
        assert all((got[n] == whole[n]).all() for n in names)
    assert list(dataset.batch(0, 2, columns="labels")) == ["labels"]
    for wrong in (["text"], ["prefix_mask"], "input_id", ["labels", "labels2"]):
        with pytest.raises(
            RangeError, match="this dataset gives input_ids, labels, segment_ids, position_ids, cu_seqlens"
        ):
            dataset.batch(0, 2, columns=wrong)


def test_records_too_long_are_told(shelf: Any) -> None:
    dataset = shelf.dataset(
        shelf.records([{"input_ids": (ids("uint16"), [[1], list(range(12)), [], [2]])}]), pack="none"
    )
    assert dataset.batch(0, 1)["input_ids"].tolist() == [[1] + [0] * 7]
    with pytest.raises(DsbuildError, match=r"part 0, record 1: 12 tokens, above length \+ 1 = 9") as caught:
        dataset.batch(1, 1)
    assert caught.value.kind == "record-too-long"
    with dataset.loader(1) as loader:
        next(loader)
        with pytest.raises(DsbuildError, match="record 1"):
            next(loader)
