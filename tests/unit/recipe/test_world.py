from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from dsbuild.digest import Digest
from dsbuild.errors import BuildError, RecipeError
from dsbuild.recipe import (
    Lock,
    Recipe,
    StatCache,
    TokenizerFacts,
    TokenizerSpec,
    World,
    compare,
    load_recipe,
    lock_error,
    merge,
    read_lock,
    resolve,
    world,
    write_lock,
)

RECIPE = """
dsbuild = 1
name = "x"
[tokenizer]
file = "tok"
eos = "</s>"
[source.web]
files = ["b/*.jsonl", "a.jsonl"]
handlers = [{ use = "clean.py:clean", reads = ["words.txt"] }]
[source.code]
files = "code"
[mixture.train]
weights = { web = 1, code = 1 }
[examples]
length = 8
"""
FILES = {
    "b/z.jsonl": "z",
    "b/y.jsonl": "y",
    "a.jsonl": "a",
    "code/x.py": "x",
    "tok/tokenizer.json": "{}",
    "words.txt": "the\n",
}
LIBRARIES = {"tokenizers": "0.23"}


class Place:
    """A directory with a recipe and its files, all old enough to be trusted, and what was asked of the tokenizer."""

    def __init__(self, root: Path) -> None:
        self.root, self.probed = root, 0
        self.write("recipe.toml", RECIPE)
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        os.utime(path, (1e9, 1e9))

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)

    @property
    def recipe(self) -> Recipe:
        return load_recipe(self.root / "recipe.toml")

    def edit(self, old: str, new: str) -> None:
        text = (self.root / "recipe.toml").read_text("utf-8")
        assert old in text
        self.write("recipe.toml", text.replace(old, new))

    def probe(self, spec: TokenizerSpec, directory: Path) -> TokenizerFacts:
        self.probed += 1
        assert (directory / spec.file).exists() or spec.file == "bytes"
        tokens = {text: 5 for text in (spec.eos, spec.bos, spec.pad) if text is not None and text != "two words"}
        return TokenizerFacts(fingerprint=Digest(bytes(32)), size=100, tokens=tokens)

    def resolve(self, old: Lock | None = None, stats: StatCache | None = None, libraries: Any = LIBRARIES) -> World:
        return resolve(self.recipe, self.probe, stats or StatCache(None), libraries, old)

    def problems(self) -> list[tuple[str, str]]:
        with pytest.raises(RecipeError) as caught:
            self.resolve()
        return [(d.kind, str(d.where).rpartition("/")[2]) for d in caught.value.diagnostics]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def b3(text: str) -> str:
    return blake3(text.encode()).hexdigest()


def test_the_world_as_it_is(place: Place) -> None:
    found = place.resolve()
    lock = found.lock
    assert [(f.name, f.pattern, f.id.hex, f.size) for f in lock.files("web", ["b/*.jsonl", "a.jsonl"])] == [
        ("b/y.jsonl", "b/*.jsonl", b3("y"), 1),
        ("b/z.jsonl", "b/*.jsonl", b3("z"), 1),
        ("a.jsonl", "a.jsonl", b3("a"), 1),
    ]
    assert [f.name for f in lock.files("code", ["code"])] == ["code/x.py"]
    assert lock.tokenizer is not None
    assert (lock.tokenizer.name, lock.tokenizer.id, lock.tokenizer.size) == ("tok", f"b3:{b3('{}')}", 100)
    assert lock.tokenizer.tokens == {"</s>": 5}
    assert lock.data() == {"words.txt": f"b3:{b3('the' + chr(10))}"}
    assert lock.libraries() == LIBRARIES
    assert found.data == {"words.txt": b"the\n"}
    file = found.files["b3:" + b3("z")]
    status = (place.root / "b/z.jsonl").stat()
    assert (file.name, file.path) == ("b/z.jsonl", str(place.root / "b/z.jsonl"))
    assert file.signature == (1, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    write_lock(place.root / "recipe.lock", lock)
    assert read_lock(place.root / "recipe.lock") == lock


def test_builtin_tokenizer(place: Place) -> None:
    place.edit('"tok"', '"bytes"')
    tokenizer = place.resolve().lock.tokenizer
    assert tokenizer is not None
    assert tokenizer.id == "builtin:bytes@1"


def test_known_files_are_not_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = StatCache(place.root / "cache")
    first = place.resolve(stats=stats)
    stats.save()
    read: list[str] = []
    real = world.hash_and_stat
    monkeypatch.setattr(world, "hash_and_stat", lambda path, name: read.append(name) or real(path, name))
    again = place.resolve(old=first.lock, stats=StatCache(place.root / "cache"))
    assert again == first
    assert read == []
    assert place.probed == 1
    place.write("b/y.jsonl", "Y")
    place.resolve(stats=StatCache(place.root / "cache"))
    assert read == ["b/y.jsonl"]


def test_the_tokenizer_is_asked_again_only_if_needed(place: Place) -> None:
    old = place.resolve().lock
    place.resolve(old)
    assert place.probed == 1
    place.resolve(old, libraries={"tokenizers": "0.24"})
    assert place.probed == 2
    place.edit('eos = "</s>"', 'eos = "<eos>"')
    place.resolve(old)
    assert place.probed == 3
    place.edit('eos = "<eos>"', 'eos = "</s>"')
    place.write("tok/tokenizer.json", "{ }")
    place.resolve(old)
    assert place.probed == 4


def test_all_problems_at_once(place: Place) -> None:
    (place.root / "a.jsonl").unlink()
    (place.root / "b").rename(place.root / "c")
    (place.root / "words.txt").unlink()
    (place.root / "tok" / "tokenizer.json").unlink()
    assert place.problems() == [
        ("no-match", "recipe.toml:8:10"),
        ("no-such-file", "recipe.toml:8:23"),
        ("no-such-file", "recipe.toml:9:48"),
        ("no-such-file", "recipe.toml:5:8"),
    ]


def test_a_token_that_is_none(place: Place) -> None:
    place.edit('eos = "</s>"', 'eos = "two words"')
    assert place.problems() == [("bad-tokenizer", "recipe.toml:6:7")]


def test_a_file_that_changes_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(path: str, name: str) -> Any:
        raise BuildError(f"{name}: changed", kind="source-changed")

    monkeypatch.setattr(world, "hash_and_stat", changing)
    with pytest.raises(BuildError) as caught:
        place.resolve()
    assert len(caught.value.diagnostics) == 5


def kinds(old: Lock, new: Lock) -> list[tuple[str, str, str, str | None]]:
    return [(c.kind, c.entry, c.name, c.old_name) for c in compare(old, new)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda p: None, []),
        (lambda p: p.write("b/x.jsonl", "new"), [("added", "file", "b/x.jsonl", None)]),
        (lambda p: (p.root / "b/z.jsonl").unlink(), [("removed", "file", "b/z.jsonl", None)]),
        (lambda p: p.write("b/z.jsonl", "zz"), [("changed", "file", "b/z.jsonl", None)]),
        (lambda p: p.move("b/z.jsonl", "b/zz.jsonl"), [("moved", "file", "b/zz.jsonl", "b/z.jsonl")]),
        (
            lambda p: p.move("b/z.jsonl", "b/a.jsonl"),
            [("added", "file", "b/a.jsonl", None), ("removed", "file", "b/z.jsonl", None)],
        ),
        (
            lambda p: [p.move("b", "c"), p.edit("b/*.jsonl", "c/*.jsonl")],
            [("moved", "file", "c/y.jsonl", "b/y.jsonl"), ("moved", "file", "c/z.jsonl", "b/z.jsonl")],
        ),
        (lambda p: p.edit("b/*.jsonl", "b/?.jsonl"), [("moved", "source", "web", None)]),
        (
            lambda p: p.edit('"b/*.jsonl", "a.jsonl"', '"a.jsonl", "b/*.jsonl"'),
            [("changed", "source", "web", None)],
        ),
        (lambda p: p.write("tok/tokenizer.json", "{ }"), [("changed", "tokenizer", "tok", None)]),
        (
            lambda p: [p.move("tok", "kot"), p.edit('"tok"', '"kot"')],
            [("moved", "tokenizer", "kot", "tok")],
        ),
        (lambda p: p.edit('eos = "</s>"', 'eos = "<e>"'), [("changed", "tokenizer", "tok", None)]),
        (lambda p: p.edit('eos = "</s>"\n', ""), []),
        (lambda p: p.write("words.txt", "a"), [("changed", "data", "words.txt", None)]),
        (
            lambda p: [p.edit("[source.code]", '[source.more]\nfiles = "a.jsonl"\n[source.code]')],
            [("added", "source", "more", None)],
        ),
        (lambda p: [p.edit('[source.code]\nfiles = "code"', ""), p.edit(", code = 1", "")], []),
        (lambda p: p.edit("  ", " ") if "  " in RECIPE else None, []),
    ],
)
def test_differences(place: Place, change: Callable[[Place], object], expected: list[Any]) -> None:
    old = place.resolve().lock
    change(place)
    new = place.resolve().lock
    assert kinds(old, new) == expected
    assert kinds(merge(old, new), new) == []
    if expected:
        accepted = merge(old, new, sorted({c.group for c in compare(old, new)}))
        assert kinds(accepted, new) == []


def test_libraries(place: Place) -> None:
    old = place.resolve().lock
    new = place.resolve(libraries={"tokenizers": "0.24", "unicode": "15.0"}).lock
    changes = compare(old, new)
    assert [(c.kind, c.entry, c.name, c.old_id, c.new_id) for c in changes] == [
        ("changed", "library", "tokenizers", "0.23", "0.24"),
        ("added", "library", "unicode", None, "15.0"),
    ]
    assert compare(old, place.resolve(libraries={}).lock) == ()
    assert [c.name for c in compare(merge(old, new, ["tokenizers"]), new)] == ["unicode"]
    assert [c.name for c in compare(merge(old, new, ["tokenizer"]), new)] == ["unicode"]


def test_update_of_one_source_leaves_the_others(place: Place) -> None:
    old = place.resolve().lock
    place.write("code/x.py", "X")
    place.write("b/q.jsonl", "q")
    new = place.resolve().lock
    assert [c.name for c in compare(merge(old, new, ["web"]), new)] == ["code/x.py"]
    assert [c.name for c in compare(merge(old, new, ["code"]), new)] == ["b/q.jsonl"]
    assert merge(old, new, ["web", "code"]) == new
    with pytest.raises(RecipeError, match="--update wbe") as caught:
        merge(old, new, ["wbe"])
    assert caught.value.diagnostics[0].hint == "did you mean 'web'?"


def test_the_error_lists_every_change(place: Place) -> None:
    old = place.resolve().lock
    write_lock(place.root / "recipe.lock", old)
    os.utime(place.root / "recipe.lock", (1e9, 1e9))
    place.write("b/z.jsonl", "zzz")
    place.write("b/x.jsonl", "x")
    place.write("code/y.py", "y")
    (place.root / "b/y.jsonl").unlink()
    place.write("tok/tokenizer.json", "[]")
    recipe = place.recipe
    error = lock_error(recipe, compare(old, place.resolve(libraries={"tokenizers": "1.0"}).lock))
    pinned = "since the lock of 2001-09-09 01:46 UTC"
    assert [d.message for d in error.diagnostics] == [
        f"code/y.py: added (1 bytes) {pinned}",
        f"b/x.jsonl: added (1 bytes) {pinned}",
        f"b/y.jsonl: removed (it had 1 bytes) {pinned}",
        f"b/z.jsonl: changed (was 1 bytes, b3:{b3('z')[:12]}; now 3 bytes, b3:{b3('zzz')[:12]}) {pinned}",
        f"tokenizer tok: changed (was 100 ids, b3:{b3('{}')[:12]}; now 100 ids, b3:{b3('[]')[:12]}) {pinned}",
        f"library tokenizers: was 0.23, is 1.0 {pinned}",
    ]
    assert error.exit_code == 7
    assert [str(d.where).rpartition("/")[2] for d in error.diagnostics][3:] == [
        "recipe.toml:8:9",
        "recipe.toml:5:8",
        "recipe.toml",
    ]
    hints = [str(d.hint).split("--update ")[1] for d in error.diagnostics]
    assert hints == ["code'", "web'", "web'", "web'", "tokenizer'", "tokenizers'"]


def test_many_changes_are_counted(place: Place) -> None:
    old = place.resolve().lock
    for number in range(100):
        place.write(f"b/{number}.jsonl", str(number))
    error = lock_error(place.recipe, compare(old, place.resolve().lock))
    assert len(error.diagnostics) == 21
    assert error.diagnostics[-1].message == "and 80 more changes since the lock"
    assert str(error.diagnostics[-1].hint).endswith("recipe.toml --update'")


def test_moved_files_are_no_error(place: Place) -> None:
    old = place.resolve().lock
    place.move("b/z.jsonl", "b/zz.jsonl")
    changes = compare(old, place.resolve().lock)
    assert [c.kind for c in changes] == ["moved"]
