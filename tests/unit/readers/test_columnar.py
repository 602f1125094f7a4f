"""Parquet and Arrow: values as JSON Lines has them, cuts, damage."""

from __future__ import annotations

import builtins
import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from dsbuild import registry
from dsbuild.digest import Digest
from dsbuild.errors import BuildError, MachineError
from dsbuild.interfaces import Cut, CutRule, Skip
from dsbuild.records import MISSING, Records, concatenate
from dsbuild.testing import readers as suite

ALL = Cut(start=0, stop=None, first=0, content=Digest(bytes(32)))
PARQUET, ARROW, JSONL = (registry.reader(name) for name in ("parquet", "arrow", "jsonl"))


def store(folder: Path, table: pa.Table, rows: int = 1000) -> list[tuple[Any, Path]]:
    """``table`` in all formats, with their readers."""
    parquet.write_table(table, folder / "a.parquet", row_group_size=rows)
    for name, new in (("a.arrow", pa.ipc.new_file), ("b.arrow", pa.ipc.new_stream)):
        with new(folder / name, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return [(PARQUET, folder / "a.parquet"), (ARROW, folder / "a.arrow"), (ARROW, folder / "b.arrow")]


def read(reader: Any, path: Path, **options: Any) -> list[Records]:
    return list(reader.read(path, ALL, {}, {}, **options))


def one(value: Any, type_: Any) -> pa.Table:
    return pa.table({"a": pa.array([value], type_)})


def nanos(text: str, unit: str, zone: str | None = None) -> pa.Array:
    return pa.array([text]).cast(pa.timestamp(unit, zone))


STRUCT = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.struct([("z", pa.string()), ("w", pa.float32())])))])


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array(["\u00e9\0"]), "\u00e9\0"),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array(["x"], pa.string_view()), "x"),
        (pa.array([None], pa.string()), MISSING),
        (pa.array([None]), MISSING),
        (pa.array([True]), True),
        (pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
        (pa.array([0.1], pa.float32()), 0.10000000149011612),
        (pa.array([1.5]).cast(pa.float16()), 1.5),
        (pa.array([[1, None]]), [1, None]),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), [1, 2]),
        (pa.array([{"x": None, "y": [{"z": "a", "w": None}, None]}], STRUCT), {"y": [{"z": "a"}, None]}),
        (pa.array([{"x": None, "y": None}], STRUCT), {}),
        (pa.array([[("k", 1), ("m", None)]], pa.map_(pa.string(), pa.int8())), {"k": 1, "m": None}),
        (pa.array([[(1, 0.5)]], pa.map_(pa.int8(), pa.float64())), [[1, 0.5]]),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([decimal.Decimal("12.50")]), "12.50"),
        (pa.array([datetime.date(1, 2, 3)]), "0001-02-03"),
        (pa.array([datetime.date(2026, 2, 3)], pa.date64()), "2026-02-03"),
        (nanos("2026-01-02 03:04:05", "s"), "2026-01-02T03:04:05"),
        (nanos("1969-12-31 23:59:59.5", "ms"), "1969-12-31T23:59:59.500000"),
        (nanos("2026-01-02 03:04:05.000000001", "ns"), "2026-01-02T03:04:05.000000001"),
        (nanos("2026-01-02 03:04:05Z", "us", "UTC"), "2026-01-02T03:04:05+00:00"),
        (pa.array([datetime.time(1, 2, 3, 4)]), "01:02:03.000004"),
        (pa.array([3], pa.duration("s")), 3),
        (pa.array([b"\0\xff"]), b"\0\xff"),
        (pa.array([b"ab"], pa.binary(2)), b"ab"),
        (pa.array([[datetime.date(2026, 2, 3)]]), ["2026-02-03"]),
    ],
)
def test_values(tmp_path: Path, array: pa.Array, value: Any) -> None:
    table = pa.table({"a": array})
    assert ARROW.suffixes and registry.reader_for("x.feather") is not ARROW
    with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    (block,) = read(ARROW, tmp_path / "a.arrow")
    assert repr(block["a"][0]) == repr(value)
    assert block.schema["a"].dtype == ("bytes" if isinstance(value, bytes) else "json")


def test_equal_to_json_lines_in_values_and_keys(tmp_path: Path) -> None:
    rows = [{"id": i, "text": f"é{i}", "tags": {"n": i / 3, "l": ["x"]}} for i in range(500)]
    rows[7].pop("text")
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    (tmp_path / "a.jsonl").write_bytes(text.encode())
    expected = concatenate(read(JSONL, tmp_path / "a.jsonl"))
    for reader, path in store(tmp_path, pa.Table.from_pylist(rows), 33):
        found = concatenate(read(reader, path))
        assert found.schema == expected.schema
        assert all(list(found[n].values) == list(expected[n].values) for n in found.schema.names)


def test_columns(tmp_path: Path) -> None:
    table = pa.table({"a": [1], "bad name": [float("nan")], "@key": [2], "i": [{"bytes": b"\1", "path": "x"}]})
    for reader, path in store(tmp_path, table):
        (block,) = read(reader, path, columns=frozenset(["a", "c", "@key"]))
        assert block.schema.names == ("@key", "@record", "a", "c")
        assert block["a"].values == [1] and block["c"].values == [MISSING]
        for wanted in (None, frozenset(["i"]), frozenset(["bad name"])):
            with pytest.raises(BuildError, match=path.name):
                read(reader, path, columns=wanted)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (pa.array([1.0, float("nan"), 2.0]), "bad-record"),
        (pa.array([[1.0], [float("-inf")], [2.0]]), "bad-record"),
        (pa.array([0, 10**18, 1], pa.timestamp("s")), "bad-record"),
        (pa.array([b"a", b"\xff", b"b"]).view(pa.string()), "bad-encoding"),
    ],
)
def test_bad_rows(tmp_path: Path, bad: pa.Array, kind: str) -> None:
    good = pa.array([1, 2, 3])
    table = pa.table({"n": good, "a": bad})
    with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    error = suite.check_bad_file(ARROW, tmp_path / "a.arrow", bad=[1], survivors=2)
    assert error.kind == kind and "row 2: column 'a'" in str(error)
    skipped: list[Skip] = []
    (block,) = read(ARROW, tmp_path / "a.arrow", skipped=skipped)
    assert block["n"].values == [1, 3] and skipped[0].place == "row 2"


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for reader, path in store(tmp_path, table):
        with pytest.raises(BuildError, match="two columns are named 'a'"):
            reader.split(path, CutRule(), {})
        with pytest.raises(BuildError, match="two columns are named 'a'"):
            read(reader, path)


def test_content_is_of_schema_and_rows(tmp_path: Path) -> None:
    tables = [one(1, pa.int8()), one(1, pa.int16()), one(2, pa.int8())]
    found = []
    for i, table in enumerate(tables):
        (tmp_path / str(i)).mkdir()
        found.append([reader.split(p, CutRule(), {}).cuts[0].content for reader, p in store(tmp_path / str(i), table)])
    assert len({content for row in found for content in row}) == 9 - 3, "file and stream of one table are equal"
    assert all(row[1] == row[2] for row in found)


def test_equal_groups_have_equal_content_wherever_they_stand(tmp_path: Path) -> None:
    """A batch put before the others disturbs the first cuts only."""
    batches = [pa.record_batch({"a": [f"{i} {j}" for j in range(20)]}) for i in range(200)]
    rule = CutRule(part_bytes=4000)
    tables = []
    for name, some in (("a.arrow", batches), ("b.arrow", [pa.record_batch({"a": ["new"]}), *batches])):
        with pa.ipc.new_file(tmp_path / name, batches[0].schema) as writer:
            for batch in some:
                writer.write_batch(batch)
        tables.append({cut.content for cut in ARROW.split(tmp_path / name, rule, {}).cuts})
    assert len(tables[0]) > 15 and len(tables[0] - tables[1]) < len(tables[0]) / 2


def test_dictionaries_before_a_cut_are_in_its_content(tmp_path: Path) -> None:
    contents = []
    for words in (["x", "y"], ["x", "z"]):
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0], pa.int8()), words)
        table = pa.table({"a": array})
        with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        cuts = ARROW.split(tmp_path / "a.arrow", CutRule(part_bytes=1), {}).cuts
        assert len(cuts) == 2
        (block,) = ARROW.read(tmp_path / "a.arrow", cuts[1], {}, {})
        assert block["a"].values == ["x", "x"] and block["@record"].values.tolist() == [0, 1]
        contents.append(cuts[1].content)
    assert contents[0] != contents[1]


def test_rows_have_places(tmp_path: Path) -> None:
    for reader, path in store(tmp_path, pa.table({"a": list(range(10))}), 3):
        cuts = reader.split(path, CutRule(part_bytes=1), {}).cuts
        assert [cut.first for cut in cuts] == [0, 3, 6, 9]
        assert reader.locate(path, cuts[1], {}, {}, 1) == "row 5"


def test_blocks_are_small_where_values_are_large(tmp_path: Path) -> None:
    for reader, path in store(tmp_path, pa.table({"a": ["x" * 1_000_000] * 20})):
        assert all(len(block) <= 8 for block in read(reader, path))


def test_the_old_feather_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(BuildError, match="feather version 1"):
        ARROW.split(tmp_path / "a.feather", CutRule(), {})
    feather.write_feather(pa.table({"a": [1]}), tmp_path / "a.feather", compression="zstd")
    assert read(ARROW, tmp_path / "a.feather")[0]["a"].values == [1]


def test_padding_after_the_magic(tmp_path: Path) -> None:
    """Other writers align the first message to 64 bytes."""
    table = pa.table({"a": [1, 2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue().to_pybytes()
    (tmp_path / "a.arrow").write_bytes(b"ARROW1" + bytes(58) + stream + b"footer" + b"ARROW1")
    assert read(ARROW, tmp_path / "a.arrow")[0]["a"].values == [1, 2]
    with pytest.raises(BuildError):
        ARROW.split(tmp_path / "a.arrow", CutRule(), {})


@pytest.mark.parametrize("step", [7, 11])
def test_damage_is_never_a_bare_exception(tmp_path: Path, step: int) -> None:
    table = pa.table({"a": ["x" * i for i in range(40)], "d": pa.array(["u", "v"] * 20).dictionary_encode()})
    for reader, path in store(tmp_path, table, 20):
        stored = path.read_bytes()
        for i in range(0, len(stored), step):
            for damaged in (stored[:i], stored[:i] + bytes([stored[i] ^ 0x41]) + stored[i + 1 :]):
                path.write_bytes(damaged)
                try:
                    for cut in reader.split(path, CutRule(), {}).cuts:
                        list(reader.read(path, cut, {}, {}))
                except BuildError as error:
                    assert path.name in str(error)


def test_a_file_that_got_shorter(tmp_path: Path) -> None:
    for reader, path in store(tmp_path, pa.table({"a": list(range(1000))}), 100):
        cut = reader.split(path, CutRule(), {}).cuts[-1]
        gone = Cut(start=cut.start, stop=(cut.stop or 0) + 100_000, first=0, content=cut.content)
        with pytest.raises(BuildError) as caught:
            list(reader.read(path, gone, {}, {}))
        assert caught.value.kind == "source-changed"


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"")
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for reader in (PARQUET, ARROW):
        with pytest.raises(MachineError) as caught:
            reader.split(tmp_path / "a", CutRule(), {})
        assert caught.value.kind == "missing-library" and "dsbuild[parquet]" in caught.value.render()
