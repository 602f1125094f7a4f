"""Normalised Python: what goes, what stays, and the same text on other Pythons where they are installed."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dsbuild.recipe.normalise import SourceError, decode, normalise

ROOT = Path(__file__).parents[3]


def text(source: str | bytes) -> str:
    return normalise(decode(source if isinstance(source, bytes) else source.encode())).text


@pytest.mark.parametrize(
    "other",
    [
        "# a comment\ndef f(x):\n    return x+1\n",
        '"""doc"""\ndef f(x):\n    return x + 1  # why\n',
        'def f(x):\n    """doc"""\n    return x + 1',
        "def f(\n    x\n):\n\n\n\treturn x \\\n\t\t+ 1\n",
        "def f(x):\r\n    return x + 1\r\n",
        "\ufeffdef f( x ) :\n  'a' 'b'\n  ('c')\n  return x \\\n  + 1   \n",
        'def f(x): \n    "doc";\n    return x + 1\n',
    ],
)
def test_layout_does_not_matter(other: str) -> None:
    assert text(other) == "def f ( x ) :\n    return x + 1\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", ""),
        ('"""only"""', ""),
        ('def f():\n    """only"""\n', "def f ( ) :\n    pass\n"),
        ('def f(): "only"\n', "def f ( ) : pass\n"),
        ('def f(): "doc"; return 1\n', "def f ( ) : return 1\n"),
        ('class C:\n    "a"\n    "b"\n', "class C :\n    pass\n"),
        ('x = 1\n"not a docstring"\n', 'x = 1\n"not a docstring"\n'),
        ('def f():\n    f"no {x} docstring"\n', 'def f ( ) :\n    f"no {x} docstring"\n'),
        ('def f():\n    b"no docstring"\n', 'def f ( ) :\n    b"no docstring"\n'),
        ('x = """a  # no comment\n\n  b"""\n', 'x = """a  # no comment\n\n  b"""\n'),
        ("x = f'{a!r:>{w}} {{# no}} {b[\"k\"]}'\n", "x = f'{a!r:>{w}} {{# no}} {b[\"k\"]}'\n"),
        ("x = f'ä{a}ö' + f'''{\na}'''  # c\n", "x = f'ä{a}ö' + f'''{\na}'''\n"),
    ],
)
def test_what_stays(source: str, expected: str) -> None:
    assert text(source) == expected
    assert text(expected) == expected


def test_lines_lead_back_to_the_file() -> None:
    source = '"""doc\nof two"""\n\nx = """a\nb"""\n\n# c\ndef f():\n    "doc"\n    return (1 +\n        2)\n'
    normal = normalise(source)
    assert normal.text.split("\n")[:-1] == ['x = """a', 'b"""', "def f ( ) :", "    return ( 1 + 2 )"]
    assert normal.lines == (4, 5, 8, 10)


@pytest.mark.parametrize(
    ("data", "line", "said"),
    [
        (b"x = 1\ny = (\n", 2, "never closed"),
        (b"x = 1\ny = '\xff'\n", 2, "not UTF-8"),
        (b"x = 1\n\0", 2, "NUL"),
        (b"# -*- coding: latin-1 -*-\nx = 1\n", 1, "latin-1"),
        (b"x = " + b"(" * 9000 + b")" * 9000, 1, ""),
        (b"if 1:\n  x\n y\n", 3, "indent"),
    ],
)
def test_what_is_no_python(data: bytes, line: int, said: str) -> None:
    with pytest.raises(SourceError) as caught:
        text(data)
    assert (caught.value.line, said in caught.value.message) == (line, True)


def test_a_normal_module_means_the_same() -> None:
    files = sorted(Path(ast.__file__).parent.glob("*.py"))[::12]
    assert len(files) > 10
    for path in files:
        normal = normalise(decode(path.read_bytes()))
        assert ast.dump(ast.parse(normal.text)) == ast.dump(_without_docstrings(normal.tree)), path
        assert len(normal.lines) == normal.text.count("\n")


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            while node.body and isinstance(node.body[0], ast.Expr) and _is_text(node.body[0].value):
                node.body.pop(0)
            if not node.body and not isinstance(node, ast.Module):
                node.body.append(ast.Pass())
    return tree


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


SCRIPT = """
import hashlib, json, sys
from dsbuild.recipe.normalise import decode, normalise
texts = [normalise(decode(open(p, "rb").read())).text for p in sys.argv[1:]]
print(json.dumps([hashlib.sha256(text.encode()).hexdigest() for text in texts]))
"""


HARD = """
x = f'ä{a!r:>{w}}' f"{b['k']}{{}}" + (1_000 if 1else 0xff)
def f(a, /, *b, c: int=1, **d) -> "x":
	\"\"\"doc\"\"\"
	return f\"\"\"{
 a }\"\"\" if 0 else ...
from . import (a,
  b)
async def g():
    async with a as b: await c; d @= ~e
match x:
  case [1, *_]: pass
"""


def others() -> list[str]:
    """Other Pythons of this machine: on the path, or beside this one where a version manager keeps them."""
    versions = ("3.11", "3.12", "3.13", "3.14")
    beside = Path(sys.base_prefix).parent
    found = {v: shutil.which(f"python{v}") for v in versions}
    for v in versions:
        for path in sorted(beside.glob(f"{v}.*/bin/python")):
            found[v] = str(path)
    return [path for v, path in found.items() if path and v != f"{sys.version_info[0]}.{sys.version_info[1]}"]


@pytest.mark.parametrize("python", others() or [None])
def test_other_pythons_agree(python: str | None, tmp_path: Path) -> None:
    if python is None:
        pytest.skip("no other Python here")
    hard = tmp_path / "hard.py"
    hard.write_text(HARD, "utf-8")
    files = [hard, *sorted(Path(ast.__file__).parent.glob("*.py"))[::20]]
    mine = [hashlib.sha256(normalise(decode(p.read_bytes())).text.encode()).hexdigest() for p in files]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    made = subprocess.run(
        [python, "-c", SCRIPT, *map(str, files)], capture_output=True, text=True, env=environment, check=False
    )
    if "No module named" in made.stderr or "SyntaxError" in made.stderr:
        pytest.skip(f"{python} can't run it: {made.stderr[-200:]}")
    assert json.loads(made.stdout) == mine
