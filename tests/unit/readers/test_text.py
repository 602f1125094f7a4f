from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import BuildError
from dsbuild.interfaces import Cut, CutRule, Skip
from dsbuild.readers.text import Text
from dsbuild.records import MISSING, Records, concatenate

ALL = Cut(start=0, stop=None, first=0, content=Digest(bytes(32)))
LINE = {"record": "line"}


def read(path: Path, data: bytes, arguments: Any = None, **options: Any) -> list[Records]:
    path.write_bytes(data)
    return list(Text().read(path, ALL, {}, arguments or {}, **options))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.txt"


def test_by_file_all_is_kept_but_the_mark(path: Path) -> None:
    (block,) = read(path, b"\xef\xbb\xbfone\r\n\r\ntwo\0\n")
    assert block["text"].values == ["one\r\n\r\ntwo\0\n"]
    assert block.schema["text"].dtype == "text"
    key = int.from_bytes(of_bytes(Domain.SPLIT, b"one\r\n\r\ntwo\0\n").raw[:8], "little")
    assert block["@key"].values.tolist() == [key] and block["@record"].values.tolist() == [0]
    assert Text().locate(path, ALL, {}, {}, 0) == "the file"


def test_by_file_blank_is_a_record_and_empty_is_none(path: Path) -> None:
    assert read(path, b"") == [] and read(path, b"\xef\xbb\xbf") == []
    assert read(path, b"\n")[0]["text"].values == ["\n"]


def test_by_file_is_never_cut(path: Path) -> None:
    data = b"line\n" * 1000
    path.write_bytes(data)
    (cut,) = Text().split(path, CutRule(part_bytes=10), {}).cuts
    assert (cut.start, cut.stop, cut.first, cut.content) == (0, 5000, 0, of_bytes(Domain.FILE, data))
    assert len(Text().split(path, CutRule(part_bytes=10), LINE).cuts) > 100


def test_by_line(path: Path) -> None:
    block = concatenate(read(path, b"\xef\xbb\xbfone\r\n\r\n  \n two \nthree", LINE))
    assert block["text"].values == ["one", " two ", "three"]
    assert Text().locate(path, ALL, {}, LINE, 2) == "line 5"


def test_columns(path: Path) -> None:
    (block,) = read(path, b"x", columns=frozenset(["other"]))
    assert block.schema.names == ("@key", "@record", "other") and block["other"].values == [MISSING]


def test_bad_encoding_names_the_line_and_byte(path: Path) -> None:
    for arguments in ({}, LINE):
        with pytest.raises(BuildError, match="line 2, byte 6: not UTF-8: byte 0xe9") as caught:
            read(path, b"one\nca\xe9\n", arguments)
        assert caught.value.kind == "bad-encoding"
    skipped: list[Skip] = []
    assert read(path, b"one\nca\xe9\n", skipped=skipped) == []
    assert skipped == [Skip(record=0, place="the file", reason="not UTF-8")]
