from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import BuildError, RecipeError
from dsbuild.interfaces import Cut, CutRule, Skip
from dsbuild.readers.csv import Csv, fields
from dsbuild.readers.faults import Fault
from dsbuild.records import MISSING, Records

ALL = Cut(start=0, stop=None, first=0, content=Digest(bytes(32)))


def read(path: Path, data: bytes, arguments: Any = None, **options: Any) -> list[Records]:
    path.write_bytes(data)
    return list(Csv().read(path, ALL, {}, arguments or {}, **options))


def rows(blocks: list[Records]) -> list[dict[str, Any]]:
    return [b.row(i) for b in blocks for i in range(len(b))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b", ["a", "b"]),
        ("", [""]),
        (",", ["", ""]),
        ('"a,b",c', ["a,b", "c"]),
        ('"a""b",""', ['a"b', ""]),
        ('"""",x', ['"', "x"]),
        ('"a\r\nb",\r', ["a\r\nb", "\r"]),
        ("\u00e9,\U0001f600", ["\u00e9", "\U0001f600"]),
    ],
)
def test_fields(text: str, found: list[str]) -> None:
    assert fields(text, ",") == found


@pytest.mark.parametrize(
    ("text", "reason", "at"),
    [
        ('a,"b', "a quoted field that is not closed", 2),
        ('"a"b', "text after a closing quote", 3),
        ('\u00e9"b"', "a quote inside a field without quotes", 2),
        ('a, "b"', "a quote inside a field without quotes", 3),
    ],
)
def test_bad_quotes(text: str, reason: str, at: int) -> None:
    with pytest.raises(Fault) as caught:
        fields(text, ",")
    assert (caught.value.reason, caught.value.at) == (reason, at)


def test_a_field_of_many_megabytes() -> None:
    big = '""x' * 4_000_000
    assert fields(f'1,"{big}",2', ",") == ["1", '"x' * 4_000_000, "2"]
    with pytest.raises(Fault, match="not closed"):
        fields('"' * 10_000_001, ",")


def test_equal_to_the_standard_library(path: Path) -> None:
    data = [["a", "b"], ["1", 'x,"y"\n'], ["", "\r\n z"], ['"', " "], ["\u00e9", "\U0001f600"]] * 20
    text = io.StringIO()
    csv.writer(text).writerows([["a", "b"], *data])
    assert [list(row.values()) for row in rows(read(path, text.getvalue().encode()))] == data


def test_line_ends_blank_lines_mark_and_places(path: Path) -> None:
    data = b'\xef\xbb\xbf\r\na,b\r\n1,"x\ny"\r\n\r\n2,z'
    assert rows(read(path, data)) == [{"a": "1", "b": "x\ny"}, {"a": "2", "b": "z"}]
    assert [Csv().locate(path, ALL, {}, {}, i) for i in (0, 1)] == ["line 3", "line 6"]


def test_keys_are_of_the_row_as_written(path: Path) -> None:
    (block,) = read(path, b'a,b\r\n1,"x"\r\n')
    key = of_bytes(Domain.SPLIT, b'1,"x"').raw[:8]
    assert block["@key"].values.tolist() == [int.from_bytes(key, "little")]


def test_tabs_are_the_delimiter_of_tsv_and_a_row_of_them_is_a_record(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.TSV"):
        path = tmp_path / name
        assert rows(read(path, b"a\tb\n\t\n \t1\n\n")) == [{"a": "", "b": ""}, {"a": " ", "b": "1"}]
    assert rows(read(tmp_path / "x.tsv.csv", b"a,b\n1,2\n")) == [{"a": "1", "b": "2"}]
    assert not Csv().whole(path, 1, CutRule()) and Csv().whole(tmp_path / "x.tsv.csv", 1, CutRule())


def test_context_has_header_and_delimiter(path: Path) -> None:
    path.write_bytes(b"a;b\n1;2\n3;4\n")
    table = Csv().split(path, CutRule(part_bytes=1), {"delimiter": ";"})
    assert table.context == {"columns": ["a", "b"], "delimiter": ";"}
    last = list(Csv().read(path, table.cuts[-1], table.context, {"delimiter": ";"}))
    assert rows(last) == [{"a": "3", "b": "4"}] and last[0]["@record"].values.tolist() == [0]


def test_without_header(path: Path) -> None:
    assert rows(read(path, b"1,2\n3,4\n", {"header": False})) == [{"c0": "1", "c1": "2"}, {"c0": "3", "c1": "4"}]
    assert Csv().split(path, CutRule(), {"header": False}).context["columns"] == ["c0", "c1"]


def test_only_a_header_or_nothing(path: Path) -> None:
    for data in (b"", b"\n", b"a,b", b"a,b\n"):
        assert read(path, data) == []
        assert len(Csv().split(path, CutRule(), {}).cuts) == 1


def test_columns(path: Path) -> None:
    (block,) = read(path, b"a,bad name\n1,2\n", columns=frozenset(["a", "c"]))
    assert block.schema.names == ("@key", "@record", "a", "c")
    assert block["a"].values == ["1"] and block["c"].values == [MISSING]


@pytest.mark.parametrize("header", [b"a,a", b"a,bad name", b"a,", b'a,"b', b"a,@key"])
def test_bad_headers_are_never_skipped(path: Path, header: bytes) -> None:
    with pytest.raises(BuildError, match=r"a\.csv: the first row: ") as caught:
        read(path, header + b"\n1,2\n", skipped=[])
    assert caught.value.kind == "bad-record"


def test_a_row_of_another_width(path: Path) -> None:
    data = b'a,b\n1,2\n"x\ny"\n3,4\n5,6,7\n'
    with pytest.raises(BuildError, match="line 3, byte 8: 1 field where the header has 2"):
        read(path, data)
    skipped: list[Skip] = []
    assert rows(read(path, data, skipped=skipped)) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert [(s.record, s.place) for s in skipped] == [(1, "line 3"), (3, "line 6")]


@pytest.mark.parametrize("delimiter", ['"', "\n", "ab"])
def test_bad_delimiters(path: Path, delimiter: str) -> None:
    with pytest.raises(RecipeError, match="delimiter"):
        read(path, b"a\n", {"delimiter": delimiter})


def test_a_delimiter_of_several_bytes(path: Path) -> None:
    assert rows(read(path, "a\u00a6b\n1\u00a62\n".encode(), {"delimiter": "\u00a6"})) == [{"a": "1", "b": "2"}]
