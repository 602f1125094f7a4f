"""Law: whatever stands in a recipe or a lock, reading it gives a value or diagnostics that can be printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsbuild.errors import DsbuildError
from dsbuild.recipe import load_recipe, read_lock, tree

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "tests" / "golden" / "diagnostics" / "everything.toml").read_bytes()
GOOD = (ROOT / "recipes" / "tiny.toml").read_bytes()
LOCK = (
    '{"dsbuild":"lock","version":1}\n'
    f'{{"kind":"file","source":"w","name":"é","pattern":"*","id":"b3:{"0" * 64}","size":1}}\n'
    '{"kind":"source","name":"w","patterns":["*"]}\n'
).encode()
TOKENS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"=",
    b"\n",
    b'"',
    b"'",
    b'"""',
    b".",
    b",",
    b"#",
    b"\\",
    b"\0",
    b"\xff",
    b"[[",
    b"1e9",
    b"nan",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(max_size=3), t, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: Any, data: bytes) -> bytes:
    """``data`` with a few runs replaced, dropped or doubled."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 12))
        middle = draw(st.sampled_from([b"", *TOKENS]) | st.binary(max_size=4) | st.just(data[at:end] * 2))
        data = data[:at] + middle + data[end:]
    return data


def read(load: Callable[[Path], object], path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        load(path)
    except DsbuildError as error:
        assert error.exit_code != 70
        error.render().encode("utf-8")
        json.dumps([d.as_json() for d in error.diagnostics])


def law(strategy: st.SearchStrategy[bytes], load: Callable[[Path], object], path: Path, examples: int = 400) -> None:
    @settings(max_examples=examples, deadline=None, database=None, report_multiple_bugs=False)
    @given(strategy)
    def check(data: bytes) -> None:
        read(load, path, data)

    check()


def test_damaged_recipes(tmp_path: Path) -> None:
    law(damaged(RECIPE) | damaged(GOOD), load_recipe, tmp_path / "r.toml")


def test_damaged_locks(tmp_path: Path) -> None:
    law(damaged(LOCK), read_lock, tmp_path / "r.lock")


@pytest.mark.parametrize(
    "key", ["", "source", "source.web", "source.web.handlers", "mixture", "mixture.train", "examples"]
)
def test_any_value_in_any_table(tmp_path: Path, key: str) -> None:
    """Values of any type under the keys that a recipe has."""
    keys = [
        "dsbuild",
        "name",
        "now",
        "seed",
        "tokenizer",
        "files",
        "from",
        "split",
        "order",
        "read",
        "until",
        "weights",
    ]
    keys += [
        "handlers",
        "use",
        "requires",
        "reads",
        "length",
        "shuffle",
        "columns",
        "pack",
        "by",
        "web",
        "train",
        "file",
    ]

    def wrapped(values: dict[str, Any]) -> bytes:
        whole: Any = values
        for part in reversed(key.split(".") if key else []):
            whole = {part: [whole] if part == "handlers" else whole}
        return json.dumps(whole).encode()

    strategy = st.dictionaries(st.sampled_from(keys), JSON, max_size=6).map(wrapped)
    law(strategy, load_recipe, tmp_path / "r.json", 60)


def test_mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that trusts the encoding must not survive."""
    monkeypatch.setattr(tree, "_decode", lambda data, path: data.decode())
    with pytest.raises(UnicodeDecodeError):
        law(damaged(GOOD), load_recipe, tmp_path / "r.toml", 2000)
