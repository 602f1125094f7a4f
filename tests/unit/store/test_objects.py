"""Publishing objects: idempotent, durable in the right order, cheap, and refusing what does not fit."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dsbuild.errors import StorageError
from dsbuild.records import Column, Records
from dsbuild.schema import Field, Schema
from dsbuild.store import Disk, Store

Make = Callable[..., Records]


def recorded(root: Path) -> tuple[Store, list[tuple[str, str]]]:
    calls: list[tuple[str, str]] = []
    return Store.open(root, disk=Disk(before=lambda verb, path: calls.append((verb, path)))), calls


def test_twice_is_once(store: Store, make_records: Make) -> None:
    records = make_records(100)
    first = store.write(records.schema, [records])
    other, calls = recorded(store.root)
    assert other.write(records.schema, [records]) == first
    assert [verb for verb, _ in calls] == ["touch", "fsync"]


def test_order_of_durability(store: Store, make_records: Make) -> None:
    records = make_records(100)
    other, calls = recorded(store.root)
    published = other.write(records.schema, [records])
    verbs = [verb for verb, _ in calls]
    home = store.layout.contents(published.content)
    assert verbs.count("syncfs") == 1
    assert verbs.count("fsync") == 1
    sync, rename = verbs.index("syncfs"), verbs.index("rename")
    assert max(i for i, verb in enumerate(verbs) if verb in ("create", "write", "mkdir")) < sync < rename
    assert calls[rename] == ("rename", f"{home}/{published.encoding.hex}")
    assert calls[rename + 1 :] == [("fsync", home)]
    assert [path for verb, path in calls if verb == "create"][-1].endswith("/files")


def test_the_same_bytes_everywhere(tmp_path: Path, make_records: Make) -> None:
    records = make_records(100)
    encodings = set()
    for name in "ab":
        store = Store.open(tmp_path / name, create=True)
        encodings.add(store.write(records.schema, [records]).encoding)
    assert len(encodings) == 1


def test_files_are_read_only(store: Store, make_records: Make) -> None:
    records = make_records(10)
    store.write(records.schema, [records])
    files = [p for p in (store.root / "objects").rglob("*") if p.is_file()]
    assert {p.stat().st_mode & 0o222 for p in files} == {0}
    assert not list((store.root / "tmp").iterdir())


def test_a_damaged_object_is_replaced_where_its_size_tells(store: Store, make_records: Make) -> None:
    records = make_records(100)
    content = store.write(records.schema, [records]).content
    victim = Path(store.object(content).path) / "data.zarr" / "text" / "values" / "c.0"
    victim.unlink()
    store.write(records.schema, [records])
    assert store.object(content, verify="open").records == 100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.drop(["text"]), "'text' should be"),
        (lambda r: r.replace({"score": (Field(name="score", dtype="float64"), Column(values=np.zeros(9)))}), "'score'"),
        (
            lambda r: r.replace({"score": (Field(name="score", dtype="float32"), Column(values=np.zeros(9)))}),
            "'score' holds float64, not float32",
        ),
        (
            lambda r: r.replace(
                {"image": (Field(name="image", dtype="uint8", shape=(3, 5)), Column(values=np.zeros((9, 3), np.uint8)))}
            ),
            r"'image' has values of shape \(3,\)",
        ),
        (
            lambda r: r.replace(
                {
                    "input_ids": (
                        Field(name="input_ids", dtype="uint16", shape=(None,)),
                        Column(values=np.zeros(5, np.uint16), offsets=np.array([0, 3, 2, 5, 5, 5, 5, 5, 5, 5])),
                    )
                }
            ),
            "'input_ids' has offsets",
        ),
    ],
)
def test_blocks_that_do_not_fit(
    store: Store, make_records: Make, change: Callable[[Records], Records], message: str
) -> None:
    records = make_records(9)
    with pytest.raises(ValueError, match=message):
        store.write(records.schema, [records, change(records)])
    assert not list((store.root / "tmp").iterdir())


def test_extra_columns_of_blocks_are_left_out(store: Store, make_records: Make) -> None:
    records = make_records(9)
    schema = Schema.of(records.schema["text"])
    assert store.object(store.write(schema, [records]).content).schema == schema


@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.ENOSPC, "disk-full"), (errno.EDQUOT, "disk-full"), (errno.EROFS, "read-only"), (errno.EIO, "io-error")],
)
def test_refusals_have_kinds_and_leave_nothing(store: Store, make_records: Make, code: int, kind: str) -> None:
    records = make_records(9)

    def refuse(verb: str, path: str) -> None:
        if verb == "write" and path.endswith("offsets/c.0"):
            raise OSError(code, os.strerror(code), path)

    refusing = Store.open(store.root, disk=Disk(before=refuse))
    with pytest.raises(StorageError) as caught:
        refusing.write(records.schema, [records])
    assert caught.value.kind == kind
    assert not list((store.root / "tmp").iterdir())
    assert store.write(records.schema, [records]).records == 9
