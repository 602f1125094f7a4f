from __future__ import annotations

import os
from pathlib import Path

import pytest
from blake3 import blake3

from dsbuild.errors import BuildError, RecipeError
from dsbuild.recipe import content as module
from dsbuild.recipe import hash_file


@pytest.mark.parametrize("size", [0, 1, 1000, (1 << 20) - 1, 1 << 20, (1 << 23) + 5, 3 << 23])
def test_it_is_plain_blake3(tmp_path: Path, size: int) -> None:
    data = os.urandom(1000) * (size // 1000 + 1)
    path = tmp_path / "f"
    path.write_bytes(data[:size])
    assert hash_file(path).hex == blake3(data[:size]).hexdigest()
    content = bytearray(b"x")
    digest, status = module.read_and_stat(str(path), "f", content)
    assert (digest, status.st_size) == (hash_file(path), size)
    assert bytes(content) == b"x" + data[:size]


def test_known_value(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    assert hash_file(tmp_path / "f").hex == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, kind in (
        ("none", "no-such-file"),
        ("", "not-a-file"),
        ("pipe", "not-a-file"),
        ("none/x", "no-such-file"),
    ):
        with pytest.raises(RecipeError) as caught:
            hash_file(tmp_path / name)
        assert caught.value.kind == kind
    with pytest.raises(RecipeError):
        hash_file(tmp_path / "a\0b")


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.os, "open", refuse)
    with pytest.raises(RecipeError) as caught:
        hash_file(tmp_path / "f")
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("size", [10, 2 << 20])
@pytest.mark.parametrize("change", ["append", "truncate", "overwrite"])
def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, change: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"a" * size)
    os.utime(path, (1e9, 1e9))
    real = module._digest

    def digest(descriptor: int, expected: int, content: bytearray | None) -> object:
        if change == "append":
            with path.open("ab") as file:
                file.write(b"b" * 100)
        elif change == "truncate":
            os.truncate(path, size // 2)
        else:
            path.write_bytes(b"b" * size)
        return real(descriptor, expected, content)

    monkeypatch.setattr(module, "_digest", digest)
    with pytest.raises(BuildError) as caught:
        hash_file(path)
    assert caught.value.kind == "source-changed"
