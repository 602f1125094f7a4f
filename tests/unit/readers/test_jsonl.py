"""What a line of JSON Lines means, for ever."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import BuildError
from dsbuild.interfaces import Cut, CutRule, Skip
from dsbuild.readers.faults import Fault
from dsbuild.readers.jsonl import DEPTH, JsonLines, parser
from dsbuild.records import MISSING, Records, concatenate

ALL = Cut(start=0, stop=None, first=0, content=Digest(bytes(32)))


def short(value: object) -> str | None:
    """Names of cases without megabytes in them."""
    return repr(value)[:24] if isinstance(value, bytes | str) else None


def read(path: Path, data: bytes, **options: Any) -> list[Records]:
    path.write_bytes(data)
    return list(JsonLines().read(path, ALL, {}, {}, **options))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b' \t{"a":1} \r', {"a": 1}),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        (b'{"a": 12345678901234567890123}', {"a": 12345678901234567890123}),
        (b'{"a": ' + b"9" * 4300 + b"}", {"a": 10**4300 - 1}),
        (b'{"a": 1.0, "b": 1e3, "c": -0.0}', {"a": 1.0, "b": 1000.0, "c": -0.0}),
        (b'{"a": 1e-400}', {"a": 0.0}),
        (b'{"a": "\\u0000"}', {"a": "\0"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a": "\\\\ud800"}', {"a": "\\ud800"}),
        ('{"a": "\u2028\x7f"}'.encode(), {"a": "\u2028\x7f"}),
        (b'{"a": null, "b": [], "c": {}, "d": true}', {"a": None, "b": [], "c": {}, "d": True}),
        (b"{}", {}),
        (b'{"a": "' + b"[{" * 1000 + b'"}', {"a": "[{" * 1000}),
        (b'{"a": ' + b"[" * (DEPTH - 1) + b"]" * (DEPTH - 1) + b"}", None),
    ],
    ids=short,
)
def test_good_lines(line: bytes, value: Any) -> None:
    found = parser(every=True)(line)
    assert type(found) is dict
    if value is not None:
        assert repr(found) == repr(value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": NaN}', "not JSON: NaN and Infinity are no numbers of JSON"),
        (b'{"a": [-Infinity]}', "not JSON: NaN and Infinity are no numbers of JSON"),
        (b'{"a": 1e999}', "a number beyond the range of float64"),
        (b'{"a": ' + b"9" * 400 + b".5}", "a number beyond the range of float64"),
        (b'{"a": ' + b"9" * 4301 + b"}", "an integer of more than 4300 digits"),
        (b'{"a": -' + b"9" * 4301 + b"}", "an integer of more than 4300 digits"),
        (b'{"a": "\0"}', "not JSON"),
        (b'{"a": 1}\0', "not JSON: something follows the value"),
        (b'{"a": "\t"}', "not JSON"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair, which is no character"),
        (b'{"a": [["\\uDC00 x"]]}', "half of a surrogate pair, which is no character"),
        (b'{"\\ud800": 1}', "half of a surrogate pair, which is no character"),
        (b'{"a": "\\ude00\\ud83d"}', "half of a surrogate pair, which is no character"),
        (b"[1]", "not an object but a list"),
        (b'"x"', "not an object but a text"),
        (b"1.5", "not an object but a number"),
        (b"null", "not an object but null"),
        (b"true", "not an object but a boolean"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON: something follows the value"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON"),
        (b'{"a": ' + b"[" * DEPTH + b"]" * DEPTH + b"}", "nested deeper than 256 levels"),
        (b"[" * 1_000_000, "nested deeper than 256 levels"),
        (b'{"a":' * 100_000, "nested deeper than 256 levels"),
        (b'{"@key": 1}', "a field name that can't name a column"),
        (b'{"a b": 1}', "a field name that can't name a column"),
        (b'{"": 1}', "a field name that can't name a column"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    ],
    ids=short,
)
def test_bad_lines(line: bytes, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        parser(every=True)(line)
    assert caught.value.reason == reason


def test_the_bound_on_digits_is_ours_not_pythons() -> None:
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        parse = parser(every=True)
        assert parse(b'{"a": ' + b"9" * 4300 + b"}")
        with pytest.raises(Fault, match="4300 digits"):
            parse(b'{"a": ' + b"9" * 4301 + b"}")
    finally:
        sys.set_int_max_str_digits(before)


def test_a_bad_name_is_refused_however_many_names_came_before() -> None:
    parse = parser(every=True)
    parse(json.dumps({f"n{i}": i for i in range(11_000)}).encode())
    with pytest.raises(Fault):
        parse(b'{"bad name": 1}')
    assert parser(every=False)(b'{"bad name": 1}') == {"bad name": 1}


def test_line_ends_blank_lines_and_marks(path: Path) -> None:
    data = b'\xef\xbb\xbf\n{"a":1}\r\n\r\n \t \n{"a":2}\n\n{"a":3}'
    block = concatenate(read(path, data))
    assert block["a"].values == [1, 2, 3]
    assert block["@record"].values.tolist() == [0, 1, 2]
    assert [JsonLines().locate(path, ALL, {}, {}, i) for i in range(3)] == ["line 2", "line 5", "line 7"]


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\r\n\r\n", b" "])
def test_nothing_is_no_records(path: Path, data: bytes) -> None:
    assert read(path, data) == []
    table = JsonLines().split(path, CutRule(), {})
    assert [(c.start, c.stop, c.first) for c in table.cuts] == [(0, len(data), 0)]
    assert table.cuts[0].content == of_bytes(Domain.FILE, data)


def test_keys_are_of_the_bytes_of_the_line(path: Path) -> None:
    (block,) = read(path, b'\xef\xbb\xbf{"a":1}\r\n {"a":1}\n')
    expected = [of_bytes(Domain.SPLIT, raw).raw[:8] for raw in (b'{"a":1}', b' {"a":1}')]
    assert block["@key"].values.tolist() == [int.from_bytes(raw, "little") for raw in expected]


def test_wanted_columns_are_all_there_and_no_others(path: Path) -> None:
    (block,) = read(path, b'{"a":1,"bad name":2,"@key":3}\n{"b":null}\n', columns=frozenset(["a", "b", "c", "@key"]))
    assert block.schema.names == ("@key", "@record", "a", "b", "c")
    assert block["a"].values == [1, MISSING]
    assert block["b"].values == [MISSING, None]
    assert block["c"].values == [MISSING, MISSING]
    assert block["@key"].values.dtype == np.uint64


def test_an_error_says_file_line_byte_and_value(path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        read(path, b'{"a":1}\n\n{"a": tru}\n')
    text = caught.value.render()
    assert f"{path}: line 3, byte 15: not JSON" in text
    assert "tru}" in text and "[bad-record]" in text and f"at {path}:3" in text
    with pytest.raises(BuildError) as caught:
        read(path, b'{"a":1}\n{"a": "caf\xe9"}\n')
    assert caught.value.kind == "bad-encoding"
    assert "line 2, byte 18: not UTF-8: byte 0xe9" in str(caught.value)


def test_places_in_later_cuts_are_places_in_the_file(path: Path) -> None:
    path.write_bytes(b'\n{"a":1}\n{"a":2}\n\n{"a":\n{"a":3}\n')
    cuts = JsonLines().split(path, CutRule(part_bytes=1), {}).cuts
    assert [c.first for c in cuts] == [0, 1, 2, 3]
    with pytest.raises(BuildError, match="line 5, byte 23"):
        list(JsonLines().read(path, cuts[2], {}, {}))
    skipped: list[Skip] = []
    assert list(JsonLines().read(path, cuts[2], {}, {}, skipped=skipped)) == []
    assert skipped == [Skip(record=2, place="line 5", reason="not JSON")]
    assert JsonLines().locate(path, cuts[3], {}, {}, 0) == "line 6"


def test_skipped_records_keep_their_numbers(path: Path) -> None:
    lines = [b'{"a":%d}' % i if i % 3 else b"x" for i in range(10_000)]
    skipped: list[Skip] = []
    blocks = read(path, b"\n".join(lines), skipped=skipped)
    assert max(len(b) for b in blocks) <= 4096
    assert [v for b in blocks for v in b["a"].values] == [i for i in range(10_000) if i % 3]
    assert [int(n) for b in blocks for n in b["@record"].values] == [i for i in range(10_000) if i % 3]
    assert [s.record for s in skipped] == list(range(0, 10_000, 3))
    assert skipped[-1].place == "line 10000"


def test_a_line_of_20_megabytes(path: Path) -> None:
    text = "x\u00e9" * 7_000_000
    blocks = read(path, b'{"a":1}\n' + json.dumps({"a": text}, ensure_ascii=False).encode() + b'\n{"a":2}\n')
    assert [v for b in blocks for v in b["a"].values] == [1, text, 2]


def test_whole_files() -> None:
    rule = CutRule(part_bytes=1000)
    reader = JsonLines()
    assert reader.whole(Path("a.jsonl"), 750, rule)
    assert not reader.whole(Path("a.jsonl"), 751, rule)
    assert not reader.whole(Path("a.jsonl.gz"), 1, rule) and not reader.whole(Path("a.jsonl.ZST"), 1, rule)
