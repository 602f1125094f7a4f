from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from dsbuild.errors import DsbuildError, NotFoundError, RecipeError
from dsbuild.recipe import tree as module
from dsbuild.recipe.places import MAX_DEPTH
from dsbuild.recipe.tree import MAX_BYTES, read_tree


def error_of(path: Path) -> DsbuildError:
    with pytest.raises(DsbuildError) as caught:
        read_tree(path)
    assert caught.value.render()
    return caught.value


def written(tmp_path: Path, data: str | bytes, name: str = "r.toml") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    ("text", "line", "column", "width"),
    [
        ("a = ", 1, 3, 1),
        ("a = 1\nb = tru", 2, 5, 1),
        ('a = 1\n\n  b = "x\n', 3, 9, 1),
        ("= 3", 1, 1, 1),
        ("a = 1 b", 1, 7, 1),
        ("a = 1\r\nb = ]\r\n", 2, 5, 1),
        ("ab = 1\n  ab = 2", 2, 3, 2),
        ("[a]\nx = 1\n[a]\n", 3, 1, 3),
    ],
)
def test_toml_errors_have_their_place(tmp_path: Path, text: str, line: int, column: int, width: int) -> None:
    error = error_of(written(tmp_path, text))
    where = error.diagnostics[0].where
    assert isinstance(error, RecipeError)
    assert error.kind == "bad-toml"
    assert where is not None
    assert (where.line, where.column, where.width) == (line, column, width)


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ('{"a": 1,}', "bad-toml", 1),
        ('{"a": 1,\n "b": {"c": 1, "c": 2},\n "a": 2}', "bad-toml", 2),
        ("[]", "bad-type", None),
        ("", "bad-toml", 1),
        ('{"a": ' + "9" * 5000 + "}", "bad-toml", None),
    ],
)
def test_json_errors(tmp_path: Path, text: str, kind: str, line: int | None) -> None:
    error = error_of(written(tmp_path, text, "r.json"))
    assert error.kind == kind
    where = error.diagnostics[0].where
    assert where is not None
    assert where.line == line


def test_every_repeated_key_of_json_is_told(tmp_path: Path) -> None:
    error = error_of(written(tmp_path, '{"a": 1,\n "b": {"c": 1, "c": 2},\n "a": 2}', "r.json"))
    assert [d.where.line for d in error.diagnostics if d.where] == [2, 3]


@pytest.mark.parametrize("name", ["r.toml", "r.json"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 300, 100_000])
def test_deep_nesting_is_refused(tmp_path: Path, name: str, depth: int) -> None:
    text = "[" * depth + "]" * depth
    path = written(tmp_path, f"a = {text}" if name == "r.toml" else f'{{"a": {text}}}', name)
    assert error_of(path).kind == "bad-value"
    if name == "r.toml":
        assert error_of(written(tmp_path, ".".join(["a"] * depth) + " = 1")).kind == "bad-value"
        if depth < 1000:
            assert error_of(written(tmp_path, "[" + ".".join(["a"] * depth) + "]")).kind == "bad-value"


def test_deepest_allowed(tmp_path: Path) -> None:
    depth = MAX_DEPTH - 1
    assert read_tree(written(tmp_path, "a = " + "[" * depth + "]" * depth)).values["a"] is not None


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text("a = 1")
    missing = error_of(tmp_path / "wbe.toml")
    assert isinstance(missing, NotFoundError)
    assert missing.kind == "no-such-file"
    assert missing.diagnostics[0].hint == "did you mean 'web.toml'?"
    assert error_of(tmp_path / "none" / "r.toml").kind == "no-such-file"
    assert error_of(tmp_path / "web.toml" / "r.toml").kind == "no-such-file"
    assert error_of(tmp_path / ("x" * 300 + ".toml")).kind == "no-such-file"
    assert error_of(Path("a\0b")).kind == "no-such-file"
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    assert error_of(tmp_path / "loop.toml").kind == "no-such-file"
    assert error_of(tmp_path).kind == "not-a-file"
    os.mkfifo(tmp_path / "pipe.toml")
    assert error_of(tmp_path / "pipe.toml").kind == "not-a-file"


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, "a = 1")
    monkeypatch.setattr(module.os, "open", refuse)
    assert error_of(path).kind == "unreadable"


def test_encodings(tmp_path: Path) -> None:
    error = error_of(written(tmp_path, b"a = 1\nb = '\xff'\n"))
    assert error.kind == "bad-encoding"
    assert "byte 11 (0xff)" in error.diagnostics[0].message
    assert str(error.diagnostics[0].where).endswith(":2")
    assert error_of(written(tmp_path, "a = 1".encode("utf-16"))).kind == "bad-encoding"
    assert read_tree(written(tmp_path, b"\xef\xbb\xbfa = 1")).values == {"a": 1}


def test_size_is_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, "a = 1\n#" + "x" * (MAX_BYTES - 7))
    assert read_tree(path).values == {"a": 1}
    assert error_of(written(tmp_path, "a = 1\n#" + "x" * (MAX_BYTES - 6))).kind == "bad-value"


def test_numbers(tmp_path: Path) -> None:
    values = read_tree(written(tmp_path, "a = 0.1\nb = 1e99999999999999999999\nc = nan\nd = 1_0.0_1")).values
    assert values["a"] == Decimal("0.1")
    assert values["b"].is_nan()
    assert values["c"].is_nan()
    assert values["d"] == Decimal("10.01")


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    error = error_of(written(tmp_path, b"a = \x1b[31m\n"))
    assert "\x1b" not in error.render()
