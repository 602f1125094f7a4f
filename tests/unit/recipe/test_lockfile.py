from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.digest import Digest
from dsbuild.errors import LockError, StorageError
from dsbuild.recipe import (
    Lock,
    LockedData,
    LockedFile,
    LockedLibrary,
    LockedSource,
    LockedTokenizer,
    encode_lock,
    lock_path,
    read_lock,
    write_lock,
    writing,
)
from dsbuild.recipe.lock import Entry

D = [Digest(bytes([n] * 32)) for n in range(10)]
ENTRIES: list[Entry] = [
    LockedFile(source="web", pattern="b/*.jsonl", name="b/z.jsonl", id=D[1], size=10),
    LockedFile(source="web", pattern="b/*.jsonl", name="b/é.jsonl", id=D[2], size=0),
    LockedFile(source="web", pattern="a.jsonl", name="a.jsonl", id=D[1], size=10),
    LockedFile(source="we", pattern="a.jsonl", name="a.jsonl", id=D[1], size=10),
    LockedSource(name="web", patterns=("b/*.jsonl", "a.jsonl")),
    LockedSource(name="we", patterns=("a.jsonl",)),
    LockedTokenizer(name="tok", id=f"b3:{D[4].hex}", fingerprint=D[5], size=1000, tokens={"</s>": 2, "<s>": 1}),
    LockedData(name="words.txt", id=D[6], size=7),
    LockedLibrary(name="tokenizers", version_class="0.23"),
    LockedLibrary(name="unicode", version_class="14.0.0"),
]
TEXT = (
    '{"dsbuild":"lock","version":1}\n'
    f'{{"kind":"data","name":"words.txt","id":"b3:{"06" * 32}","size":7}}\n'
    f'{{"kind":"file","source":"we","name":"a.jsonl","pattern":"a.jsonl","id":"b3:{"01" * 32}","size":10}}\n'
    f'{{"kind":"file","source":"web","name":"a.jsonl","pattern":"a.jsonl","id":"b3:{"01" * 32}","size":10}}\n'
    f'{{"kind":"file","source":"web","name":"b/z.jsonl","pattern":"b/*.jsonl","id":"b3:{"01" * 32}","size":10}}\n'
    f'{{"kind":"file","source":"web","name":"b/é.jsonl","pattern":"b/*.jsonl","id":"b3:{"02" * 32}","size":0}}\n'
    '{"kind":"library","name":"tokenizers","class":"0.23"}\n'
    '{"kind":"library","name":"unicode","class":"14.0.0"}\n'
    '{"kind":"source","name":"we","patterns":["a.jsonl"]}\n'
    '{"kind":"source","name":"web","patterns":["b/*.jsonl","a.jsonl"]}\n'
    f'{{"kind":"tokenizer","name":"tok","id":"b3:{"04" * 32}","fingerprint":"{"05" * 32}","size":1000,'
    '"tokens":{"</s>":2,"<s>":1}}\n'
)


def test_golden_bytes_and_back(tmp_path: Path) -> None:
    lock = Lock.of(ENTRIES)
    assert encode_lock(lock).decode() == TEXT
    write_lock(tmp_path / "r.lock", lock)
    assert (tmp_path / "r.lock").read_text("utf-8") == TEXT
    assert read_lock(tmp_path / "r.lock") == lock
    assert [p.name for p in tmp_path.iterdir()] == ["r.lock"]


@settings(max_examples=30, deadline=None)
@given(st.permutations(ENTRIES))
def test_the_order_of_entries_does_not_matter(entries: list[Entry]) -> None:
    assert encode_lock(Lock.of(entries)).decode() == TEXT
    assert Lock.of(entries) == Lock.of(ENTRIES)


def test_lines_are_sorted_and_any_order_is_read(tmp_path: Path) -> None:
    head, *lines = TEXT.splitlines()
    assert lines == sorted(lines)
    assert head < lines[0]
    path = tmp_path / "r.lock"
    path.write_text("\r\n".join([head, *reversed(lines), "", ""]), "utf-8")
    assert read_lock(path) == Lock.of(ENTRIES)


def test_the_same_lock_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "r.lock"
    write_lock(path, Lock.of(ENTRIES))
    os.utime(path, (1e9, 1e9))
    write_lock(path, Lock.of(ENTRIES))
    assert path.stat().st_mtime == 1e9
    write_lock(path, Lock.of(ENTRIES[:4]))
    assert path.stat().st_mtime != 1e9


FILE = TEXT.splitlines()[2]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "a lock begins with"),
        (FILE, 1, "a lock begins with"),
        ('{"dsbuild":"lock","version":2}\n', 1, "version 2"),
        (TEXT + "<<<<<<< HEAD\n", 12, "merge conflict"),
        (TEXT + "{\n", 12, "not JSON"),
        (TEXT + "1,2\n", 12, "not JSON"),
        (TEXT + "[" * 100_000 + "\n", 12, "not JSON"),
        (TEXT + "7\n", 12, "not an entry"),
        (TEXT + FILE + "\n", 12, "two entries for the file a.jsonl of source we"),
        (TEXT + '{"kind":"files"}\n', 12, "no entry has kind 'files'"),
        (TEXT + '{"kind":["file"]}\n', 12, "no entry has kind"),
        (TEXT + '{"kind":"library","name":"x"}\n', 12, "'class' is missing"),
        (TEXT + '{"kind":"library","name":"x","class":"1","more":1}\n', 12, "no such field: 'more'"),
        (TEXT + '{"kind":"library","name":"x","class":1}\n', 12, "'class' is not a text"),
        (TEXT + '{"kind":"library","name":"x\\u0000","class":"1"}\n', 12, "'name' is not a text"),
        (TEXT + '{"kind":"library","name":"\\ud800","class":"1"}\n', 12, "lone surrogate"),
        (TEXT + '{"kind":"source","name":"x","patterns":[]}\n', 12, "'patterns'"),
        (TEXT + '{"kind":"source","name":"x","patterns":[1]}\n', 12, "'patterns'"),
        (TEXT + '{"kind":"source","name":"web","patterns":["q"]}\n', 12, "two entries for the source web"),
        (TEXT.replace('"size":0', '"size":-1'), 6, "'size'"),
        (TEXT.replace('"size":0', '"size":0.0'), 6, "'size'"),
        (TEXT.replace('"size":0', '"size":true'), 6, "'size'"),
        (TEXT.replace("b3:02", "b3:0G"), 6, "'id'"),
        (TEXT.replace("b3:02", "sha256:02"), 6, "'id'"),
        (TEXT.replace('"fingerprint":"05', '"fingerprint":"5'), 11, "'fingerprint'"),
        (TEXT.replace('{"</s>":2,"<s>":1}', "[]"), 11, "'tokens'"),
        (TEXT.replace('"</s>":2', '"</s>":-2'), 11, "'</s>'"),
        (TEXT + TEXT.splitlines()[-1].replace('"tok"', '"tok2"') + "\n", None, "two entries for the tokenizer"),
    ],
)
def test_damage_is_told_with_its_line(tmp_path: Path, text: str, line: int | None, told: str) -> None:
    path = tmp_path / "r.lock"
    path.write_text(text, "utf-8")
    with pytest.raises(LockError) as caught:
        read_lock(path)
    (found,) = caught.value.diagnostics
    assert found.kind == "bad-lock"
    assert told in found.message
    assert found.where is not None
    if line is not None:
        assert found.where.line == line


def test_files_that_are_no_lock(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "r.lock")
    assert caught.value.kind == "missing-lock"
    (tmp_path / "r.lock").mkdir()
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "r.lock")
    assert caught.value.kind == "bad-lock"
    (tmp_path / "x.lock").write_bytes(TEXT.encode() + b"\xff\n")
    with pytest.raises(LockError, match="not UTF-8"):
        read_lock(tmp_path / "x.lock")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(28, "No space left on device"), "disk-full"),
        (OSError(30, "Read-only file system"), "read-only"),
        (PermissionError(13, "Permission denied"), "read-only"),
        (OSError(5, "Input/output error"), "io-error"),
    ],
)
def test_storage_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, kind: str) -> None:
    def refuse(_: int) -> None:
        raise error

    path = tmp_path / "r.lock"
    write_lock(path, Lock.of(ENTRIES[:4]))
    before = path.read_bytes()
    monkeypatch.setattr(writing.os, "fsync", refuse)
    with pytest.raises(StorageError) as caught:
        write_lock(path, Lock.of(ENTRIES))
    assert caught.value.kind == kind
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.lock"]


def test_a_left_over_temporary_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".r.lock.{os.getpid()}").write_text("killed")
    write_lock(tmp_path / "r.lock", Lock.of(ENTRIES))
    assert read_lock(tmp_path / "r.lock") == Lock.of(ENTRIES)


def test_lines_are_plain_json() -> None:
    assert [json.loads(line)["kind"] for line in TEXT.splitlines()[1:]] == sorted(
        ["file"] * 4 + ["source"] * 2 + ["tokenizer", "data"] + ["library"] * 2
    )


def test_names() -> None:
    assert lock_path(Path("a/web.toml")) == Path("a/web.lock")
    assert lock_path(Path("web.v1.json")) == Path("web.v1.lock")
