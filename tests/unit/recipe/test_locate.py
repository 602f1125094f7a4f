from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dsbuild.errors import RecipeError
from dsbuild.recipe import Found, Recipe, load_recipe, locate
from dsbuild.recipe import pattern as module

TREE = (
    "a.jsonl",
    "b.jsonl",
    "B.jsonl",
    "é.jsonl",
    "c.txt",
    ".hidden.jsonl",
    "deep/a.jsonl",
    "deep/x/y/z.jsonl",
    "deep/x/n.txt",
    "deep/.git/q.jsonl",
    "deep/.dot.jsonl",
    "with[1].jsonl",
    "star*.jsonl",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in TREE:
        path = tmp_path / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def recipe_of(directory: Path, *patterns: str) -> Recipe:
    path = directory / "recipe.toml"
    listed = ",\n  ".join("'" + p + "'" for p in patterns)
    path.write_text(
        f'dsbuild = 1\nname = "x"\n[source.web]\nfiles = [\n  {listed},\n]\n'
        "[mixture.train]\nweights = { web = 1 }\n[examples]\nlength = 8\n",
        "utf-8",
    )
    return load_recipe(path)


def found(directory: Path, *patterns: str) -> list[Found]:
    recipe = recipe_of(directory, *patterns)
    return locate(recipe, recipe.sources["web"])


def names(directory: Path, *patterns: str) -> list[str]:
    return [f.name for f in found(directory, *patterns)]


def problems(directory: Path, *patterns: str) -> list[tuple[str, int | None, str]]:
    with pytest.raises(RecipeError) as caught:
        found(directory, *patterns)
    return [(d.kind, d.where.line if d.where else None, f"{d.message} | {d.hint}") for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("lake/a.jsonl", ["lake/a.jsonl"]),
        ("./lake//a.jsonl", ["lake/a.jsonl"]),
        ("lake/*.txt", ["lake/c.txt"]),
        ("lake/?.jsonl", ["lake/B.jsonl", "lake/a.jsonl", "lake/b.jsonl", "lake/é.jsonl"]),
        ("lake/[ab].jsonl", ["lake/a.jsonl", "lake/b.jsonl"]),
        ("lake/[!ab].jsonl", ["lake/B.jsonl", "lake/é.jsonl"]),
        ("lake/[a-b].jsonl", ["lake/a.jsonl", "lake/b.jsonl"]),
        ("lake/with[[]1].jsonl", ["lake/with[1].jsonl"]),
        ("lake/star[*].jsonl", ["lake/star*.jsonl"]),
        ("*/a.jsonl", ["lake/a.jsonl"]),
        ("*/*/a.jsonl", ["lake/deep/a.jsonl"]),
        ("lake/**/a.jsonl", ["lake/a.jsonl", "lake/deep/a.jsonl"]),
        ("lake/**/**/a.jsonl", ["lake/a.jsonl", "lake/deep/a.jsonl"]),
        ("lake/**/z.*", ["lake/deep/x/y/z.jsonl"]),
        ("**/x/**/*.jsonl", ["lake/deep/x/y/z.jsonl"]),
        ("lake/.*.jsonl", ["lake/.hidden.jsonl"]),
        ("lake/.hidden.jsonl", ["lake/.hidden.jsonl"]),
        ("lake/deep", ["lake/deep/a.jsonl", "lake/deep/x/n.txt", "lake/deep/x/y/z.jsonl"]),
        ("lake/deep/", ["lake/deep/a.jsonl", "lake/deep/x/n.txt", "lake/deep/x/y/z.jsonl"]),
        ("lake/deep/**", ["lake/deep/a.jsonl", "lake/deep/x/n.txt", "lake/deep/x/y/z.jsonl"]),
        ("lake/deep/x/**", ["lake/deep/x/n.txt", "lake/deep/x/y/z.jsonl"]),
        ("lake/deep/.git", ["lake/deep/.git/q.jsonl"]),
        ("lake/deep/*/*", ["lake/deep/x/n.txt"]),
        ("lake/deep/../c.txt", ["lake/deep/../c.txt"]),
    ],
)
def test_patterns(data: Path, pattern: str, expected: list[str]) -> None:
    assert names(data, pattern) == expected


def test_what_is_told_of_a_file(data: Path) -> None:
    (one,) = found(data, "lake/é.jsonl")
    path = data / "lake" / "é.jsonl"
    status = path.stat()
    assert (one.pattern, one.name, one.path, one.size) == ("lake/é.jsonl", "lake/é.jsonl", str(path), 8)
    assert one.signature == (8, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def test_absolute_patterns_and_the_recipe_directory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = str(data / "lake" / "a.jsonl")
    assert names(data, at) == [at]
    assert names(data, str(data / "lake" / "[ab].jsonl")) == [at, str(data / "lake" / "b.jsonl")]
    (data / "recipes").mkdir()
    assert names(data / "recipes", "../lake/c.*") == ["../lake/c.txt"]
    recipe_of(data, "lake/c.*", ".")
    monkeypatch.chdir(data)
    recipe = load_recipe(Path("recipe.toml"))
    assert next(f.path for f in locate(recipe, recipe.sources["web"])) == str(data / "lake" / "c.txt")


def test_the_recipe_directory_itself(tmp_path: Path) -> None:
    assert names(tmp_path, ".") == ["recipe.toml"]
    assert names(tmp_path, "*") == ["recipe.toml"]


def test_patterns_stay_in_order_and_files_count_once(data: Path) -> None:
    assert names(data, "lake/b.jsonl", "lake/[ab].jsonl") == ["lake/b.jsonl", "lake/a.jsonl"]
    assert names(data, "lake/deep/../b.jsonl", "lake/[ab].jsonl") == ["lake/deep/../b.jsonl", "lake/a.jsonl"]
    assert [f.pattern for f in found(data, "lake/*.txt", "lake/deep", "**/*.txt")] == ["lake/*.txt"] + ["lake/deep"] * 3


def test_names_are_sorted_by_code_point(tmp_path: Path) -> None:
    listed = ["z", "a", "Z", "ä", "a-b", "a/b", "a.b", "\U0001f600", "\uffee"]
    for name in listed:
        path = tmp_path / "d" / f"{name}.x"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    expected = sorted(f"d/{name}.x" for name in listed)
    assert names(tmp_path, "d") == expected
    assert names(tmp_path, "d/**/*.x") == expected


def test_links_are_followed_but_not_in_circles(data: Path) -> None:
    deep = data / "lake" / "deep"
    (deep / "link.jsonl").symlink_to(deep / "a.jsonl")
    (deep / "other").symlink_to(data / "elsewhere")
    (data / "elsewhere").mkdir()
    (data / "elsewhere" / "e.txt").write_text("e")
    (data / "elsewhere" / "back").symlink_to(deep)
    (deep / "x" / "self").symlink_to(deep / "x")
    expected = ["a.jsonl", "link.jsonl", "other/e.txt", "x/n.txt", "x/y/z.jsonl"]
    assert names(data, "lake/deep") == [f"lake/deep/{n}" for n in expected]
    assert names(data, "lake/deep/**/e.txt") == ["lake/deep/other/e.txt"]


def test_all_problems_at_once_with_their_places(data: Path) -> None:
    (data / "lake" / "dead.lnk").symlink_to("nowhere")
    os.mkfifo(data / "lake" / "pipe.fifo")
    told = problems(
        data, "lake/*.parquet", "lake/aa.jsonl", "lake/*.lnk", "lake/pipe.fifo", "lake/dead.lnk", "none/*.x"
    )
    assert [(kind, line) for kind, line, _ in told] == [
        ("no-match", 5),
        ("no-such-file", 6),
        ("not-a-file", 7),
        ("not-a-file", 8),
        ("not-a-file", 9),
        ("no-match", 10),
    ]
    assert "did you mean 'a.jsonl'?" in told[1][2]
    assert "leads nowhere" in told[2][2]
    assert "a pipe" in told[3][2]
    assert "the directory does not exist" in told[5][2]


def test_other_things_that_are_no_files(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("lake/s.sock")
        assert problems(data, "lake/*.sock")[0][0] == "not-a-file"
    assert problems(data, "/dev/null")[0][0] == "not-a-file"
    (data / "lake" / "loop.x").symlink_to("loop.x")
    assert problems(data, "lake/*.x")[0][0] == "not-a-file"
    (data / "empty").mkdir()
    assert problems(data, "empty")[0][0] == "no-match"
    assert problems(data, "lake/x*" * 3)[0][0] == "no-match"
    assert problems(data, "y" * 300)[0][0] == "no-such-file"


def test_a_name_that_is_not_utf8(data: Path) -> None:
    (data / "lake" / os.fsdecode(b"bad\xff.csv")).write_text("")
    kind, _, told = problems(data, "lake/*.csv")[0]
    assert kind == "bad-name"
    assert "bad" in told
    told.encode("utf-8")


def test_unreadable_directory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("/x"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(module.os, "scandir", refuse)
    told = problems(data, "lake/**")
    assert [kind for kind, _, _ in told] == ["unreadable"]
    assert "lake/deep/x: Permission denied" in told[0][2]


def test_many_problems_are_counted(data: Path) -> None:
    for number in range(50):
        (data / "lake" / f"{number}.lnk").symlink_to("nowhere")
    told = problems(data, "lake/*.lnk")
    assert len(told) == 21
    assert "and 30 more" in told[-1][2]


def test_a_hostile_pattern_ends_soon(tmp_path: Path) -> None:
    (tmp_path / ("a" * 250)).write_text("")
    for number in range(8):
        (tmp_path / "/".join("d" * (number + 1))).mkdir(parents=True, exist_ok=True)
    assert problems(tmp_path, "*a" * 100 + "b")[0][0] == "no-match"
    assert problems(tmp_path, "**/*/" * 40 + "q")[0][0] == "no-match"


def test_one_stat_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    for number in range(200):
        (tmp_path / "d" / f"{number}.x").write_text("")
    recipe = recipe_of(tmp_path, "d/*.x")
    calls = []
    real = os.stat
    monkeypatch.setattr(module.os, "stat", lambda *a, **k: calls.append(a) or real(*a, **k))
    assert len(locate(recipe, recipe.sources["web"])) == 200
    assert len(calls) <= 3
