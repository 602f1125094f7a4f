"""Hostile and unlucky source files: each has one defined outcome, the right records or an error with file and place."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dsbuild import registry
from dsbuild.errors import DsbuildError
from dsbuild.interfaces import CutRule
from dsbuild.testing import readers as suite

GOOD = b'{"text":"a"}\n{"text":"b"}\n{"text":"c"}\n'
BIG = "x" * 20_000_000
LINE: dict[str, Any] = {"record": "line"}


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def short(value: object) -> str | None:
    """Names of cases without megabytes in them."""
    return repr(value)[:24] if isinstance(value, bytes | str) else None


def read(path: Path, arguments: dict[str, Any] | None = None) -> list[Any]:
    """The ``text`` of all records, after splitting too."""
    reader = registry.reader_for(path.name)
    given = arguments or {}
    table = reader.split(path, CutRule(), given)
    return [row.get("text") for _, row in suite.rows(reader, path, table, given)]


@pytest.mark.parametrize(
    ("name", "data", "arguments", "found"),
    [
        # empty files
        ("a.jsonl", b"", {}, []),
        ("a.txt", b"", {}, []),
        ("a.txt", b"", LINE, []),
        ("a.csv", b"", {}, []),
        ("a.jsonl.gz", gz(b""), {}, []),
        ("a.txt.zst", zstandard.compress(b""), {}, []),
        # no line feed at the end
        ("a.jsonl", GOOD[:-1], {}, ["a", "b", "c"]),
        ("a.txt", b"a\nb", LINE, ["a", "b"]),
        ("a.csv", b"text\na", {}, ["a"]),
        # carriage returns
        ("a.jsonl", GOOD.replace(b"\n", b"\r\n"), {}, ["a", "b", "c"]),
        ("a.txt", b"a\r\nb\r\n", {}, ["a\r\nb\r\n"]),
        ("a.txt", b"a\r\nb\r\n", LINE, ["a", "b"]),
        ("a.csv", b'text\r\na\r\n"b\r\nc"\r\n', {}, ["a", "b\r\nc"]),
        # byte order marks
        ("a.jsonl", b"\xef\xbb\xbf" + GOOD, {}, ["a", "b", "c"]),
        ("a.txt", b"\xef\xbb\xbfa", {}, ["a"]),
        ("a.csv", b"\xef\xbb\xbftext\na\n", {}, ["a"]),
        # NUL
        ("a.jsonl", b'{"text":"\\u0000"}\n', {}, ["\0"]),
        ("a.txt", b"a\0b", {}, ["a\0b"]),
        ("a.csv", b"text\na\0b\n", {}, ["a\0b"]),
        # pairs of surrogates, duplicate keys, blank lines
        ("a.jsonl", b'{"text":"\\ud83d\\ude00"}', {}, ["\U0001f600"]),
        ("a.jsonl", b'{"text":1,"text":2}', {}, [2]),
        ("a.jsonl", b"\n\r\n \t\n" + GOOD + b"\n\n", {}, ["a", "b", "c"]),
        # one line of 20 MB
        ("a.jsonl", b'{"text":"' + BIG.encode() + b'"}', {}, [BIG]),
        ("a.txt", BIG.encode(), LINE, [BIG]),
        ("a.csv", b'text\n"' + BIG.encode() + b'"\n', {}, [BIG]),
        # members and frames
        ("a.jsonl.gz", gz(GOOD[:20]) + gz(GOOD[20:]), {}, ["a", "b", "c"]),
        ("a.jsonl.zst", zstandard.compress(GOOD[:20]) + zstandard.compress(GOOD[20:]), {}, ["a", "b", "c"]),
    ],
    ids=short,
)
def test_right_records(tmp_path: Path, name: str, data: bytes, arguments: dict[str, Any], found: list[Any]) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert read(path, arguments) == found


@pytest.mark.parametrize(
    ("name", "line", "kind", "said"),
    [
        ("a.jsonl", b'{"text":"\0"}', "bad-record", "line 2, byte 22: not JSON"),
        ("a.jsonl", b'{"text":"\\udfff"}', "bad-record", "half of a surrogate pair, which is no character: '\\udfff'"),
        ("a.jsonl", b"[1, 2]", "bad-record", "line 2, byte 13: not an object but a list: '[1, 2]'"),
        ("a.jsonl", b'{"text":NaN}', "bad-record", "NaN and Infinity are no numbers of JSON"),
        ("a.jsonl", b'{"text":1e999}', "bad-record", "a number beyond the range of float64: '1e999'"),
        ("a.jsonl", b'{"text":' + b"1" * 5000 + b"}", "bad-record", "an integer of more than 4300 digits"),
        ("a.jsonl", b"[" * 5_000_000, "bad-record", "nested deeper than 256 levels"),
        ("a.jsonl", b'{"text":"caf\xe9"}', "bad-encoding", "line 2, byte 25: not UTF-8: byte 0xe9"),
        ("a.jsonl", b'{"text":"' + BIG[:5_000_000].encode(), "bad-record", "line 2"),
        ("a.csv", b"1,2", "bad-record", "2 fields where the header has 1: '1,2'"),
        ("a.csv", b'a"b"', "bad-record", "a quote inside a field without quotes"),
        ("a.csv", b'"a" ', "bad-record", "text after a closing quote"),
        ("a.csv", b"\xff", "bad-encoding", "not UTF-8"),
    ],
    ids=short,
)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_a_bad_record_in_the_midst(tmp_path: Path, name: str, line: bytes, kind: str, said: str, packed: str) -> None:
    first, last = (b'{"text":"a"}\n', b'\n{"text":"c"}\n') if name == "a.jsonl" else (b"text\n", b"\nc\n")
    pack = {"": bytes, ".gz": gz, ".zst": zstandard.compress}[packed]
    path = tmp_path / (name + packed)
    path.write_bytes(pack(first + line + last))
    given: dict[str, Any] = {"bad": [1], "survivors": 2} if name == "a.jsonl" else {"bad": [0], "survivors": 1}
    error = suite.check_bad_file(registry.reader_for(path.name), path, **given)
    assert error.kind == kind and said in str(error)
    assert "line 2" in str(error) and len(str(error)) < 600
    assert error.diagnostics[0].where is not None and error.diagnostics[0].where.line == 2


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.jsonl", "{}".encode("utf-16"), "bad-encoding"),
        ("a.txt", "text".encode("utf-16"), "bad-encoding"),
        ("a.csv", "text\n".encode("utf-16"), "bad-encoding"),
        ("a.csv", b"text,text\n1,2\n", "bad-record"),
        ("a.jsonl.gz", GOOD, "bad-record"),
        ("a.jsonl.gz", b"", "bad-record"),
        ("a.jsonl.gz", gz(GOOD)[:-3], "bad-record"),
        ("a.jsonl.gz", gz(GOOD) + GOOD, "bad-record"),
        ("a.jsonl.zst", GOOD, "bad-record"),
        ("a.jsonl.zst", b"", "bad-record"),
        ("a.jsonl.zst", zstandard.compress(GOOD)[:-3], "bad-record"),
        ("a.jsonl.zst", zstandard.compress(GOOD) + GOOD, "bad-record"),
        ("a.parquet", b"", "bad-record"),
        ("a.parquet", GOOD, "bad-record"),
        ("a.parquet", b"PAR1" + bytes(100) + b"PAR1", "bad-record"),
        ("a.arrow", b"", "bad-record"),
        ("a.arrow", GOOD, "bad-record"),
        ("a.arrow", b"ARROW1" + bytes(100), "bad-record"),
        ("a.arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7f", "bad-record"),
    ],
    ids=short,
)
def test_a_file_that_is_bad_as_a_whole_is_never_skipped(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    reader = registry.reader_for(name)
    try:
        error = suite.check_bad_file(reader, path)
    except DsbuildError as raised:  # found while cutting
        error = raised
    assert error.kind == kind and name in str(error)


def test_packed_files_under_plain_names_say_so(tmp_path: Path) -> None:
    for data, hint in ((gz(GOOD), ".gz"), (zstandard.compress(GOOD), ".zst")):
        (tmp_path / "a.jsonl").write_bytes(data)
        error = suite.check_bad_file(registry.reader("jsonl"), tmp_path / "a.jsonl")
        assert hint in error.render()


def test_what_is_no_file(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.txt", "a.csv", "a.parquet", "a.arrow", "a.jsonl.gz"):
        with pytest.raises(DsbuildError) as caught:
            read(tmp_path / name)
        assert caught.value.kind == "no-such-file"
        (tmp_path / name).mkdir()
        with pytest.raises(DsbuildError) as caught:
            read(tmp_path / name)
        assert caught.value.kind == "not-a-file"


def test_an_unclosed_quote_takes_the_rest_and_says_where_it_began(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\na\n"b\n' + b"c\n" * 1000)
    error = suite.check_bad_file(registry.reader("csv"), path)
    assert "line 3, byte 7: a quoted field that is not closed" in str(error)


def test_a_stray_quote_that_takes_other_rows_is_never_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\na\n5" wide\n' + b'"c"\n' * 1000)
    error = suite.check_bad_file(registry.reader("csv"), path)
    assert "line 3, byte 8: a quote inside a field without quotes" in str(error)


def test_real_files(test_data: Path) -> None:
    """The same GSM8K rows from Parquet, both kinds of Arrow, and JSON Lines."""
    found = {}
    for name in ("train.parquet", "train.arrow", "train_first1000.arrows", "train.jsonl"):
        path = test_data / f"gsm8k_{name}"
        reader = registry.reader_for(path.name)
        table = reader.split(path, CutRule(part_bytes=1 << 18), {})
        found[name] = suite.rows(reader, path, table, {})
    first = found.pop("train.parquet")
    assert found["train.arrow"] == first and found["train_first1000.arrows"] == first[:1000]
    assert [row for _, row in found["train.jsonl"]] == [row for _, row in first]
