"""Closures of user Python: what is found, what is refused, and what moves the digest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from dsbuild.errors import RecipeError
from dsbuild.recipe.code import UserCode, load_code

FILES = {
    "handlers/clean.py": "import helper\nfrom handlers import other\n\ndef clean(record, *, least):\n    return 1\n",
    "handlers/helper.py": "from . import deep\nX = 1\n",
    "handlers/other.py": "import json, top\n",
    "handlers/deep.py": "def f():\n    from pack.inner import y\n    return y\n",
    "handlers/unused.py": "import torch\n",
    "top.py": "",
    "pack/__init__.py": "Z = 3\n",
    "pack/inner.py": "y = 2\n",
}


def make(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return directory


def load(directory: Path, use: str = "handlers/clean.py:clean", requires: tuple[str, ...] = ()) -> UserCode:
    file, _, function = use.rpartition(":")
    return load_code(directory, file, function, requires)


def refused(directory: Path, use: str = "clean.py:clean", requires: tuple[str, ...] = ()) -> tuple[str, str, str]:
    with pytest.raises(RecipeError) as caught:
        load(directory, use, requires)
    (found,) = caught.value.diagnostics
    line = found.where.line if found.where else None
    return f"{found.kind}:{line or ''}", found.message, found.hint or ""


def test_closure(tmp_path: Path) -> None:
    code = load(make(tmp_path, FILES))
    assert code.entry == "handlers.clean:clean"
    names = [
        "handlers.clean",
        "handlers.deep",
        "handlers.helper",
        "handlers.other",
        "pack.__init__",
        "pack.inner",
        "top",
    ]
    assert sorted(code.modules) == names
    assert code.paths["pack.__init__"] == tmp_path.resolve() / "pack/__init__.py"
    assert code.modules["handlers.helper"] == "from . import deep\nX = 1\n"
    assert code.lines["handlers.helper"] == (1, 2)
    assert (code.accepts, code.demands, code.unicode) == (frozenset({"least"}), frozenset({"least"}), False)


@pytest.mark.parametrize(
    ("name", "text", "moves"),
    [
        ("handlers/deep.py", "# why\n" + FILES["handlers/deep.py"], False),
        ("handlers/unused.py", "import jax\n", False),
        ("handlers/__init__.py", "", False),
        ("handlers/__init__.py", '"""Only a docstring."""\n', False),
        ("top.py", "x = 1\n", True),
        ("pack/__init__.py", "Z = 4\n", True),
        ("pack/inner.py", "y = 3\n", True),
        ("handlers/__init__.py", "x = 1\n", True),
        ("handlers/pack/inner.py", "y = 2\n", True),
    ],
)
def test_what_moves_the_digest(tmp_path: Path, name: str, text: str, moves: bool) -> None:
    before = load(make(tmp_path / "a", FILES)).digest
    after = load(make(tmp_path / "b", {**FILES, name: text})).digest
    assert (before != after) is moves


def test_beside_the_file_comes_first(tmp_path: Path) -> None:
    make(tmp_path, {"h/clean.py": "import x\ndef clean(r): return r\n", "h/x.py": "A = 1", "x.py": "A = 2"})
    assert sorted(load(tmp_path, "h/clean.py:clean").modules) == ["h.clean", "h.x"]


def test_imports_of_literals_count(tmp_path: Path) -> None:
    source = "import importlib\ndef clean(r):\n    return importlib.import_module('x').f(__import__('y'), r)\n"
    make(tmp_path, {"clean.py": source, "x.py": "", "y.py": ""})
    assert sorted(load(tmp_path, "clean.py:clean").modules) == ["clean", "x", "y"]


@pytest.mark.parametrize(
    ("source", "kind", "said", "hint"),
    [
        ("import numpy\ndef clean(r): ...", "bad-python:1", "import of 'numpy'", 'requires = ["numpy"]'),
        ("\n\ndef f():\n  import nonesuch.x\n", "bad-python:4", "'nonesuch.x'", "nonesuch.py"),
        ("from . import x", "bad-python:1", "relative import '.' leaves", "import helper"),
        ("from ..a import x", "bad-python:1", "relative import '..a' leaves", ""),
        ("import string", "bad-python:1", "and in the standard library", "rename"),
        ("x = (", "bad-python:1", "never closed", ""),
        (b"x = '\xff'", "bad-python:1", "not UTF-8", ""),
        ("def clear(r): ...", "bad-python:", "no function 'clean'", "did you mean 'clear'?"),
        ("async def clean(r): ...", "bad-python:", "async", ""),
        ("def clean(): ...", "bad-python:", "takes no record", ""),
    ],
)
def test_refused(tmp_path: Path, source: str | bytes, kind: str, said: str, hint: str) -> None:
    make(tmp_path, {"clean.py": source, "string.py": ""})
    found = refused(tmp_path)
    assert found[0] == kind
    assert said in found[1] and found[1].startswith("clean.py: ")
    assert hint in found[2]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    make(tmp_path, {"h/clean.py": "def clean(r): ...", "dir.py/x": ""})
    assert refused(tmp_path, "h/claen.py:clean") == (
        "no-such-file:",
        "h/claen.py: no such file",
        "did you mean 'h/clean.py'?",
    )
    assert refused(tmp_path, "dir.py:f")[0] == "not-a-file:"
    assert refused(tmp_path, "../x.py:f")[1] == "../x.py: outside of the recipe's directory"
    assert refused(tmp_path, str(tmp_path / "h/clean.py") + ":clean")[0] == "bad-python:"
    assert "can't name a module" in refused(tmp_path, "v1.2/x.py:f")[1]


def test_links_must_not_lead_out(tmp_path: Path) -> None:
    make(tmp_path, {"out/x.py": "", "in/clean.py": "import x\ndef clean(r): ...", "in/own.py": ""})
    (tmp_path / "in/x.py").symlink_to(tmp_path / "out/x.py")
    assert "a link that leads out" in refused(tmp_path / "in")[1]
    (tmp_path / "in/x.py").unlink()
    (tmp_path / "in/x.py").symlink_to(tmp_path / "in/own.py")
    assert sorted(load(tmp_path / "in", "clean.py:clean").modules) == ["clean", "x"]


def test_requires(tmp_path: Path) -> None:
    make(tmp_path, {"clean.py": "import numpy.linalg\nfrom google_crc32c import x\ndef clean(r): ...\n"})
    assert load(tmp_path, "clean.py:clean", ("numpy>=2", "Google.CRC32c")).modules
    assert "google_crc32c" in refused(tmp_path, requires=("numpy",))[1]


@pytest.mark.parametrize("name", ["typing", "json", "unicodedata", "collections.abc"])
def test_standard_library_is_free(tmp_path: Path, name: str) -> None:
    make(tmp_path, {"clean.py": f"import {name}\ndef clean(r): ...\n", f"{name.partition('.')[0]}/data.txt": ""})
    assert load(tmp_path, "clean.py:clean").modules


@pytest.mark.parametrize(
    ("source", "unicode"),
    [
        ("def clean(r): return r['a'].strip().split()", False),
        ("def clean(r): return r['a'].lower()", True),
        ("import re\ndef clean(r): return re.sub('a', 'b', r)", True),
        ("from unicodedata import normalize as n\ndef clean(r): return n('NFC', r)", True),
        ("def clean(r): return 'lower'", False),
    ],
)
def test_what_depends_on_unicode(tmp_path: Path, source: str, unicode: bool) -> None:
    assert load(make(tmp_path, {"clean.py": source}), "clean.py:clean").unicode is unicode


@pytest.mark.parametrize(
    ("source", "accepts", "demands"),
    [
        ("def clean(record, a, b=1, *, c, d=2): ...", {"a", "b", "c", "d"}, {"a", "c"}),
        ("def clean(record, /, **rest): ...", None, set()),
        ("clean = lambda r: r", None, set()),
        ("@wrap\ndef clean(): ...", None, set()),
        ("if True:\n    def clean(record): ...", set(), set()),
        ("from other import clean", None, set()),
        ("class clean: ...", None, set()),
        ("a, clean = 1, len", None, set()),
    ],
)
def test_signatures(tmp_path: Path, source: str, accepts: set[str] | None, demands: set[str]) -> None:
    code = load(make(tmp_path, {"clean.py": source, "other.py": ""}), "clean.py:clean")
    assert (code.accepts, set(code.demands)) == (None if accepts is None else frozenset(accepts), demands)


def test_place_does_not_matter(tmp_path: Path) -> None:
    one, two = load(make(tmp_path / "one", FILES)), load(make(tmp_path / "deep/two", FILES))
    assert one.digest == two.digest
    assert not re.search(str(tmp_path), "".join(one.modules.values()))
