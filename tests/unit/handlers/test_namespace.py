"""Namespaces of user Python: imports in every form, and isolation from the rest of the process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dsbuild.errors import BuildError
from dsbuild.handlers.namespace import Namespace
from dsbuild.recipe.code import load_code


def load(directory: Path, files: Mapping[str, str], file: str = "h/clean.py") -> Any:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    code = load_code(directory, file, "clean", ("numpy",))
    module = code.entry.partition(":")[0]
    return Namespace(code.modules, module.rpartition(".")[0]).load(module)


HELPER = {
    "h/helper.py": "X = 'h'\n",
    "h/sub/__init__.py": "Y = 's'\n",
    "h/sub/deep.py": "from .. import helper\nZ = helper.X\n",
}
TOP = {"top/mod.py": "T = 't'\n"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import helper\ndef clean(r=0): return helper.X", "h"),
        ("import helper as other\ndef clean(r=0): return other.X", "h"),
        ("from helper import X\ndef clean(r=0): return X", "h"),
        ("from helper import *\ndef clean(r=0): return X", "h"),
        ("from h import helper\ndef clean(r=0): return helper.X", "h"),
        ("import h.helper\ndef clean(r=0): return h.helper.X", "h"),
        ("import h.helper as x\ndef clean(r=0): return x.X", "h"),
        ("from . import helper\ndef clean(r=0): return helper.X", "h"),
        ("from .helper import X as Q\ndef clean(r=0): return Q", "h"),
        ("def clean(r=0):\n    import helper\n    return helper.X", "h"),
        ("def clean(r=0):\n    from .helper import X\n    return X", "h"),
        ("import sub.deep\ndef clean(r=0): return sub.Y + sub.deep.Z", "sh"),
        ("from sub.deep import Z\ndef clean(r=0): return Z", "h"),
        ("from sub import deep\ndef clean(r=0): return deep.Z", "h"),
        ("import top.mod\ndef clean(r=0): return top.mod.T", "t"),
        ("from top.mod import T\ndef clean(r=0): return T", "t"),
        ("import importlib\ndef clean(r=0): return importlib.import_module('sub.deep').Z", "h"),
        ("from importlib import import_module\ndef clean(r=0): return import_module('helper').X", "h"),
        ("def clean(r=0): return __import__('helper').X", "h"),
        ("import numpy.linalg as n\ndef clean(r=0): return n.__name__", "numpy.linalg"),
        ("import os.path, json\ndef clean(r=0): return os.path.join(json.loads('\"a\"'), 'b')", "a/b"),
        ("import helper, h.helper\nfrom . import helper as c\ndef clean(r=0): return helper is h.helper is c", True),
        ("def clean(r=0): return __file__", "h/clean.py"),
        ("import helper\ndef clean(r=0): return __debug__", True),
    ],
)
def test_imports(tmp_path: Path, source: str, expected: object) -> None:
    assert load(tmp_path, {**HELPER, **TOP, "h/clean.py": source}).clean() == expected


def test_packages_run_once_and_first(tmp_path: Path) -> None:
    files = {
        "h/__init__.py": "order = ['h']\n",
        "h/a.py": "import h\nh.order.append('a')\n",
        "h/clean.py": "import a, h.a\nfrom h import order\norder.append('clean')\ndef clean(r=0): return order\n",
    }
    assert load(tmp_path, files).clean() == ["h", "a", "clean"]


def test_circles_work_as_in_python(tmp_path: Path) -> None:
    files = {"a.py": "import b\nA = 1\ndef get(): return b.B\n", "b.py": "import a\nB = 2\ndef get(): return a.A\n"}
    module = load(tmp_path, {**files, "clean.py": "import a, b\ndef clean(r=0): return a.get() + b.get()"}, "clean.py")
    assert module.clean() == 3


def test_two_recipes_do_not_meet(tmp_path: Path) -> None:
    lazy = "def clean(r=0):\n    import helper\n    return helper.X\n"
    one = load(tmp_path / "1", {"h/clean.py": lazy, "h/helper.py": "X = 1\n"})
    two = load(tmp_path / "2", {"h/clean.py": lazy, "h/helper.py": "X = 2\n"})
    assert [one.clean(), two.clean(), one.clean(), two.clean()] == [1, 2, 1, 2]
    assert "helper" not in sys.modules and "h" not in sys.modules


def test_two_namespaces_of_one_closure_share_no_state(tmp_path: Path) -> None:
    files = {
        "h/clean.py": "import helper\ndef clean(r=0):\n    helper.L.append(1)\n    return len(helper.L)\n",
        "h/helper.py": "L = []\n",
    }
    one, two = load(tmp_path, files), load(tmp_path, files)
    assert [one.clean(), one.clean(), two.clean(), one.clean()] == [1, 2, 1, 3]


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nN = 'unseen'\ndef clean(r=0): return importlib.import_module(N)",
        "N = 'unseen'\ndef clean(r=0): return __import__(N)",
        "N = 'h.unseen'\ndef clean(r=0): return __import__(N)",
        "import importlib\nN = '.unseen'\ndef clean(r=0): return importlib.import_module(N, __package__)",
        "from importlib import import_module\ndef clean(r=0): return import_module('zarr'[:])",
    ],
)
def test_what_the_hash_does_not_cover_is_refused(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path / "h")
    module = load(tmp_path, {"h/clean.py": source, "h/unseen.py": "X = 1\n"})
    with pytest.raises(BuildError) as caught:
        module.clean()
    assert caught.value.kind == "impure"
    assert "unseen" not in sys.modules


def test_a_module_that_fails_leaves_nothing(tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load(tmp_path, {"clean.py": "import helper\ndef clean(r=0): ...", "helper.py": "1 / 0"}, "clean.py")
    assert not {n for n in set(sys.modules) - before if "helper" in n}


def test_libraries_find_the_module_of_a_class(tmp_path: Path) -> None:
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom typing import ClassVar, "
        "NamedTuple, get_type_hints\n@dataclass\nclass A:\n    x: int = 1\n    y: ClassVar[int] = 2\n"
        "class B(NamedTuple):\n    a: A\ndef clean(r=0): return get_type_hints(B)['a'] is A and A().x\n"
    )
    assert load(tmp_path, {"clean.py": source}, "clean.py").clean() == 1


def test_tracebacks_name_the_file(tmp_path: Path) -> None:
    module = load(tmp_path, {"h/clean.py": "def clean(r=0):\n    1 / 0\n"})
    assert module.clean.__code__.co_filename == "h/clean.py"
