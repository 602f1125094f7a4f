"""Law: in any TOML or JSON text, every key and value has its exact place.

The texts are made together with the places of what they say, in all styles of TOML: headers, arrays of tables, dotted
and quoted keys, inline tables, lists over several lines, four kinds of strings, comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import tomli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsbuild.recipe import places as module
from dsbuild.recipe.places import Places, json_places, toml_places

Path = tuple[str | int, ...]
Spot = tuple[int, int]

NAMES = st.sampled_from(["a", "b-1", "_c", "d d", "é", 'q"q', "s's", "x.y", "#", "[", "="])
SCALARS = st.sampled_from(
    [
        "1",
        "0.50",
        "true",
        "1979-05-27 07:32:00",
        '"a # b"',
        '"\\" = ] }"',
        "'c:\\'",
        '""',
        "''",
        '"""x\n[y]\n"q""""',
        "'''\n'a'''",
    ]
)
GAPS = st.sampled_from(["", " ", "  # c = 1", "\t"])


@dataclass
class Writer:
    """Text so far, with the places of keys and values."""

    text: str = ""
    keys: dict[Path, Spot] = field(default_factory=dict)
    values: dict[Path, Spot] = field(default_factory=dict)

    @property
    def here(self) -> Spot:
        line = self.text.count("\n") + 1
        return line, len(self.text) - (self.text.rfind("\n") + 1) + 1

    def key(self, path: Path, name: str, draw: Any) -> None:
        self.keys.setdefault((*path, name), self.here)
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
        literal = "'" not in name and draw(st.booleans())
        self.text += name if bare and draw(st.booleans()) else f"'{name}'" if literal else json.dumps(name)

    def value(self, path: Path, depth: int, draw: Any) -> None:
        self.values[path] = self.here
        kind = draw(st.sampled_from(["scalar", "scalar", "list", "table"])) if depth else "scalar"
        if kind == "scalar":
            self.text += draw(SCALARS)
        elif kind == "list":
            self.text += "["
            for number in range(draw(st.integers(0, 3))):
                self.text += draw(st.sampled_from(["", " ", "\n  ", " # [ {\n "]))
                self.value((*path, number), depth - 1, draw)
                self.text += draw(st.sampled_from([",", " ,", "\n, # ]\n"]))
            self.text += "]"
        else:
            self.text += "{"
            names = draw(st.lists(NAMES, unique=True, max_size=3))
            for number, name in enumerate(names):
                self.text += ", " if number else " "
                self.pair((*path,), name, depth - 1, draw)
            self.text += " }"

    def pair(self, path: Path, name: str, depth: int, draw: Any) -> None:
        self.key(path, name, draw)
        path = (*path, name)
        if draw(st.integers(0, 4)) == 0:  # dotted
            self.values.setdefault(path, self.keys[path])
            self.text += draw(st.sampled_from([".", " . "]))
            inner = draw(NAMES)
            self.key(path, inner, draw)
            path = (*path, inner)
        self.text += draw(st.sampled_from(["=", " = ", "\t="]))
        self.value(path, depth, draw)


@st.composite
def documents(draw: Any) -> Writer:
    out = Writer()
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        out.text += draw(st.sampled_from(["", "  ", "# [x]\n"]))
        out.pair((), name, 2, draw)
        out.text += draw(GAPS) + "\n"
    taken = {str(path[0]) for path in out.keys}
    for top in draw(st.lists(NAMES.filter(lambda n: n not in taken), unique=True, max_size=3)):
        for path, opening, closing in headers(out, top, draw):
            out.text += opening
            names = [p for p in path if isinstance(p, str)]
            at: Path = ()
            header = out.here
            for number, part in enumerate(path):
                if isinstance(part, int):
                    at = (*at, part)
                    out.values.setdefault(at, header)
                    continue
                header = out.here
                out.key(at, part, draw)
                at = (*at, part)
                out.values.setdefault(at, out.keys[at])
                if part != names[-1] or number < len(path) - 2:
                    out.text += "."
            out.text = out.text.removesuffix(".") + closing + draw(GAPS) + "\n"
            for name in draw(st.lists(NAMES, unique=True, max_size=2)):
                out.pair(at, name, 2, draw)
                out.text += draw(GAPS) + "\n"
    return out


def headers(out: Writer, top: str, draw: Any) -> Iterator[tuple[Path, str, str]]:
    """One style of tables below ``top``: [top], [top.one] [top.two], or [[top]] twice."""
    style = draw(st.sampled_from(["plain", "nested", "array"]))
    if style == "plain":
        yield (top,), "[", "]"
    elif style == "nested":
        yield (top, "one"), "[", "]"
        yield (top, "two"), "[ ", " ]"
    else:
        yield (top, 0), "[[", "]]"
        yield (top, 1), "[[", "]]"


def paths_of(tree: Any, at: Path = ()) -> Iterator[Path]:
    if at:
        yield at
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from paths_of(item, (*at, key))


Find = Callable[[str, str], Places]


def spots(found: dict[Path, Any]) -> dict[Path, Spot]:
    return {path: (where.line, where.column) for path, where in found.items()}


def check_toml(find: Find, examples: int = 300) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(documents())
    def law(made: Writer) -> None:
        try:
            tree = tomli.loads(made.text)
        except tomli.TOMLDecodeError:
            return  # two dotted keys that meet
        found = find(made.text, "x")
        assert set(found.values) == set(paths_of(tree))
        assert spots(found.keys) == made.keys
        assert spots(found.values) == made.values

    law()


def check_json(find: Find, examples: int = 150) -> None:
    leaves = st.sampled_from([1, 0.5, True, None, "", "a, b", 'q"\\', "{[", "é"])
    trees = st.dictionaries(
        st.text('ab"\\é:,', max_size=3),
        st.recursive(
            leaves, lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text("k\\", max_size=2), t, max_size=3)
        ),
        max_size=3,
    )

    @settings(max_examples=examples, deadline=None, database=None, report_multiple_bugs=False)
    @given(trees, st.sampled_from([None, 1]), st.booleans())
    def law(tree: Any, indent: int | None, ascii_only: bool) -> None:
        text = json.dumps(tree, indent=indent, ensure_ascii=ascii_only)
        found = find(text, "x")
        assert set(found.values) - {()} == set(paths_of(tree))
        assert found.twice == []
        lines = text.split("\n")
        for path, where in found.values.items():
            value = tree
            for part in path:
                value = value[part]
            rest = "\n".join([lines[where.line - 1][where.column - 1 :], *lines[where.line :]])
            assert json.JSONDecoder().raw_decode(rest)[0] == value

    law()


def test_toml() -> None:
    check_toml(toml_places)


def test_json() -> None:
    check_json(json_places)


@pytest.mark.parametrize(
    "broken", ["no multi-line strings", "one table an array", "quoted keys as written", "dots are text"]
)
def test_mutants(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "no multi-line strings":
        monkeypatch.setattr(module, "_STRING", re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''))
    elif broken == "one table an array":
        original = module._Walk.header
        monkeypatch.setattr(module._Walk, "header", lambda self, *, many: original(self, many=False))
    elif broken == "quoted keys as written":
        monkeypatch.setattr(module._Walk, "name", lambda self, token: token)
    else:
        monkeypatch.setattr(module, "_DOT", re.compile(r"(?!)"))
    with pytest.raises(AssertionError):
        check_toml(toml_places, 1000)


def test_mutant_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_JSON_STRING", re.compile(r'"[^"]*"'))
    with pytest.raises(AssertionError):
        check_json(json_places, 1000)
