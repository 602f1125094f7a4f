"""From [tokenizer] to a tokenizer: every way in which a file can be wrong, by name."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dsbuild.digest import Digest
from dsbuild.errors import DsbuildError, LockError
from dsbuild.tokenizers import load_tokenizer, probe

WORDS = {
    "added_tokens": [
        {"id": 3, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        | {"special": True}
    ],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
}


def write(path: Path, value: Any = WORDS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return path


def test_a_file_a_directory_and_bytes(tmp_path: Path) -> None:
    write(tmp_path / "model" / "tokenizer.json")
    one, two = probe("model/tokenizer.json", tmp_path, ["</s>", "a"]), probe("model", tmp_path)
    assert (one.fingerprint, one.size, dict(one.tokens)) == (two.fingerprint, 4, {"</s>": 3, "a": 1})
    assert one.path == two.path == tmp_path / "model" / "tokenizer.json"
    assert set(one.libraries) == {"tokenizers"} and one.libraries["tokenizers"].count(".") == 1
    built_in = probe("bytes", tmp_path, ["<eos>"])
    assert (built_in.size, built_in.path, dict(built_in.libraries), built_in.tokens["<eos>"]) == (259, None, {}, 256)
    assert load_tokenizer("model", tmp_path, one.fingerprint).size == 4


def refused(file: str, directory: Path, *texts: str) -> tuple[str, str, str]:
    with pytest.raises(DsbuildError) as caught:
        probe(file, directory, texts)
    found = caught.value.diagnostics[0]
    assert found.message.startswith(f"{file}: ")
    return found.kind, found.message, found.hint or ""


def test_files_that_are_not_there(tmp_path: Path) -> None:
    write(tmp_path / "model" / "vocab.json")
    (tmp_path / "pipe.json").parent.joinpath("d.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    assert refused("nowhere.json", tmp_path)[:2] == ("no-such-file", "nowhere.json: no such file")
    kind, message, hint = refused("model", tmp_path)
    assert (kind, message) == ("no-such-file", "model: no tokenizer.json in this directory") and "vocab.json" in hint
    assert refused("d.json", tmp_path)[1] == "d.json: no tokenizer.json in this directory"
    assert refused("pipe.json", tmp_path)[0] == "not-a-file"
    assert refused("a\0b", tmp_path)[0] == "unreadable"


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    write(tmp_path / "t.json", {"model": {"type": "Nonsense"}})
    assert refused("t.json", tmp_path)[0] == "bad-tokenizer"
    (tmp_path / "u.json").write_bytes(b"{")
    assert "not JSON" in refused("u.json", tmp_path)[1]


def test_tokens_that_are_not_one(tmp_path: Path) -> None:
    write(tmp_path / "t.json")
    kind, message, hint = refused("t.json", tmp_path, "a", "a b")
    assert (kind, message) == ("bad-tokenizer", "t.json: 'a b' would be 2 tokens, [1, 2], not one")
    assert hint == "its special tokens are '</s>'"
    assert refused("t.json", tmp_path, "zzz")[1] == "t.json: 'zzz' is unknown to it"
    assert refused("bytes", tmp_path, "</s>") == (
        "bad-tokenizer",
        "bytes: '</s>' is not one token",
        "its special tokens are <eos>, <bos>, <pad>",
    )


def test_a_tokenizer_that_changed(tmp_path: Path) -> None:
    write(tmp_path / "t.json")
    with pytest.raises(LockError, match=r"t\.json: has fingerprint .* locked was 000000000000"):
        load_tokenizer("t.json", tmp_path, Digest(bytes(32)))
