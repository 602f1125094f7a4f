"""Names of sources and files, as they are kept and printed."""

from __future__ import annotations

import pytest

from dsbuild.digest import Digest
from dsbuild.store import Store
from dsbuild.store.names import Names, names_path, printable, read_names, render_names
from dsbuild.store.sealed import seal

DIGEST = Digest(bytes(range(32)))


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store", create=True)


def put(store, data):
    path = names_path(store, DIGEST)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_round_trip(store):
    names = Names(views={DIGEST.hex: "wéb"}, files={"a" * 64: ["x.jsonl", "y\n.jsonl"]})
    assert read_names(store, DIGEST) == Names()
    put(store, render_names(names))
    assert read_names(store, DIGEST) == names
    assert read_names(store, DIGEST).source(DIGEST) == "wéb"
    assert read_names(store, DIGEST).source(Digest(bytes(32))) is None


@pytest.mark.parametrize(
    "value",
    [
        {"dsbuild": 2, "files": {}, "views": {"a": "b"}},
        {"dsbuild": 1, "files": {"a": "bc"}, "views": {"a": "b"}},
        {"dsbuild": 1, "files": {"a": [1]}, "views": {"a": "b"}},
        {"dsbuild": 1, "files": [], "views": {"a": "b"}},
        {"dsbuild": 1, "files": {}, "views": {"a": 1}},
        {"dsbuild": 1, "files": {}, "views": ["a"]},
        {"dsbuild": 1},
    ],
)
def test_other_values_are_no_names(store, value):
    put(store, seal(value))
    assert read_names(store, DIGEST) == Names()


def test_damage_is_no_error(store):
    data = render_names(Names(views={DIGEST.hex: "web"}))
    for damaged in (b"", data[:-1], data.replace(b"web", b"wEb"), b"[" * 100_000, b"\xff"):
        put(store, damaged)
        assert read_names(store, DIGEST) == Names()
    names_path(store, DIGEST).unlink()
    names_path(store, DIGEST).mkdir()
    assert read_names(store, DIGEST) == Names()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b/ü.jsonl", "a b/ü.jsonl"),
        ("a\x1b[2Jb\n", "a\\x1b[2Jb\\n"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\udc80", "\\udc80"),
        ("\x9b1m", "\\x9b1m"),
    ],
)
def test_only_what_prints_is_printed(text, shown):
    assert printable(text) == shown
    assert Names(views={DIGEST.hex: text}).source(DIGEST) == shown
