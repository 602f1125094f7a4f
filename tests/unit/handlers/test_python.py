"""User Python: what a function may return, what it is given, and how its errors are told."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.errors import BuildError
from dsbuild.handlers.python import Python
from dsbuild.interfaces import Facts, Resources
from dsbuild.recipe.code import load_code
from dsbuild.records import Column, Records
from dsbuild.schema import KEY, RECORD, Field
from dsbuild.testing import handlers as suite

ROWS: list[dict[str, Any]] = [{"n": i, "text": "t" * i, "tags": ["a", {"b": i}]} for i in range(5)]


class Maker:
    """Writes a file, loads its closure and makes handlers of it."""

    def __init__(self, directory: Path, source: str, arguments: Mapping[str, Any] | None = None) -> None:
        path = directory / "h" / "clean.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, "utf-8")
        self.code = load_code(directory, "h/clean.py", "clean", ())
        given = {"code": self.code.digest.hex, "entry": self.code.entry, "arguments": arguments or {}}
        self.arguments = suite.check_resolve(Python, given, Facts(seed=0))
        self.resources = Resources(modules=self.code.modules, lines=self.code.lines)

    def __call__(self) -> Python:
        return Python(self.arguments, self.resources)


def run(directory: Path, source: str, arguments: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    made = suite.check_handler(Maker(directory, source, arguments), suite.make_records(ROWS))
    return [made.row(i) for i in range(len(made))]


def error(directory: Path, body: str, row: int = 0) -> tuple[str, str]:
    maker = Maker(directory, f"def clean(record):\n    {body}\n")
    found = suite.check_error(maker, suite.make_records(ROWS), row, "")
    return found.message, found.hint or ""


def test_map(tmp_path: Path) -> None:
    made = run(tmp_path, "def clean(r):\n    r['text'] += '!'\n    r['tags'].append((1, 2))\n    return r\n")
    assert made[1] == {"n": 1, "text": "t!", "tags": ["a", {"b": 1}, [1, 2]]}


def test_filter(tmp_path: Path) -> None:
    made = run(tmp_path, "def clean(r):\n    r.clear() if r['n'] == 4 else 0\n    return (r or {'n': 4})['n'] > 2\n")
    assert made == ROWS[3:]
    assert len(run(tmp_path, "def clean(r):\n    return r if r['n'] % 2 else None\n")) == 2


@pytest.mark.parametrize("form", ["[{}]", "tuple([{}])", "({})"])
def test_flat_map(tmp_path: Path, form: str) -> None:
    many = form.replace("{}", "{'n': r['n'], 'k': k} for k in range(r['n'])")
    maker = Maker(tmp_path, f"def clean(r):\n    return {many}\n")
    records = suite.make_records(ROWS)
    made = suite.check_handler(maker, records)
    assert [(made.row(i)["n"], made.row(i)["k"]) for i in range(len(made))] == [
        (n, k) for n in range(5) for k in range(n)
    ]
    assert list(made[RECORD].values) == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]
    assert made[KEY].values[0] == records[KEY].values[1]


def test_arguments(tmp_path: Path) -> None:
    given = {"p": Fraction(1, 10), "n": 2**70, "deep": {"x": [Fraction(1, 3), True]}}
    source = "def clean(r, *, p, n, deep):\n    return {'v': [p, n, deep, type(n).__name__]}\n"
    assert run(tmp_path, source, given)[0] == {"v": [0.1, 2**70, {"x": [1 / 3, True]}, "int"]}
    with pytest.raises(ValueError, match="no name of Python"):
        Python.resolve({"code": "", "entry": "", "arguments": {"a-b": 1}}, Facts(seed=0))


def test_hashed_form(tmp_path: Path) -> None:
    assert set(Maker(tmp_path, "def clean(r): ...").arguments) == {"code", "entry"}
    given = {"code": "c", "entry": "a:b", "requires": {"x": "1"}, "reads": {}, "unicode": ""}
    assert Python.resolve(given, Facts(seed=3)) == {"code": "c", "entry": "a:b", "requires": {"x": "1"}}


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("return 3", "returned int", "return a dict"),
        ("return [3]", "returned int in a list", "return a dict"),
        ("return 'abc'", "returned str", "return a dict"),
        ("return {'a': {1, 2}}", "column 'a', which is set", "sorted(value)"),
        ("return {'a': b'x'}", "column 'a', which is bytes", "value.decode()"),
        ("return {'a': float('nan')}", "column 'a', which is nan", "return None"),
        ("return {'a': [1e999]}", "which is inf", ""),
        ("return {'a': 'x\\ud800'}", "lone surrogate at character 1", ""),
        ("return {'a': {1: 2}}", "has the key 1, which is int", "str(key)"),
        ("return {1: 2}", "returned the column 1", "names are text"),
        ("return {'@key': 2}", "returned the column '@key'", ""),
        ("return {'a\\ud800': 2}", "lone surrogate", ""),
        ("return {'a': 1 << 20000}", "20001 bits", ""),
        ("return {'a': object()}", "which is object, which a record can't hold", ""),
        ("x = []; x.append(x); return {'a': x}", "nested deeper than 200", ""),
    ],
)
def test_what_can_not_be_returned(tmp_path: Path, body: str, message: str, hint: str) -> None:
    found = error(tmp_path, body)
    assert message in found[0] and hint in found[1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("\n\n    # why\n    return record['nope']", "h/clean.py:5: KeyError: 'nope'"),
        ("raise ValueError('so')", "h/clean.py:2: ValueError: so"),
        ("yield from (1 / 0 for _ in 'a')", "h/clean.py:2: ZeroDivisionError"),
        ("import sys; sys.exit(3)", "h/clean.py:2: SystemExit: 3"),
        ("return clean(record)", "h/clean.py:2: RecursionError"),
        ("import json; json.loads('{')", "h/clean.py:2: JSONDecodeError"),
        ("class E(Exception):\n        def __str__(self): return 1 / 0\n    raise E", "h/clean.py:4: E"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, body: str, said: str) -> None:
    assert error(tmp_path, body)[0].startswith(said)


def test_the_record_that_fails_is_named(tmp_path: Path) -> None:
    assert error(tmp_path, "return {'v': 1 // (record['n'] - 3)}", 3)[0] == (
        "h/clean.py:2: ZeroDivisionError: integer division or modulo by zero"
    )


def test_a_module_that_does_not_load_is_no_record_error(tmp_path: Path) -> None:
    maker = Maker(tmp_path, "import json\nX = json.loads('')\ndef clean(r): ...\n")
    with pytest.raises(BuildError, match=r"^h/clean\.py:2: JSONDecodeError: .*, while it was imported") as caught:
        maker().apply(suite.make_records(ROWS))
    assert caught.value.kind == "bad-python"
    with pytest.raises(BuildError, match="'clean' is no function"):
        Maker(tmp_path, "clean = 3\n")().apply(suite.make_records(ROWS))


def typed() -> Records:
    ids = Field(name="ids", dtype="uint16", shape=(None,))
    column = Column(values=np.arange(10, dtype=np.uint16), offsets=np.array([0, 0, 1, 3, 6, 10]))
    pair = (Field(name="pair", dtype="int32", shape=(2,)), Column(values=np.arange(10, dtype=np.int32).reshape(5, 2)))
    score = (Field(name="score", dtype="float32"), Column(values=np.arange(5, dtype=np.float32) / 4))
    body = (Field(name="body", dtype="text"), Column(values=list("abcde")))
    raw = (Field(name="raw", dtype="bytes"), Column(values=[b"x"] * 5))
    changes = {"ids": (ids, column), "pair": pair, "score": score, "body": body, "raw": raw}
    return suite.make_records(ROWS).replace(changes)


def test_typed_columns_keep_their_types(tmp_path: Path) -> None:
    source = (
        "def clean(r):\n    r['ids'][:] = 7\n    r['pair'] = r['pair'] * 2\n    r['score'] += 1\n    del r['body']\n"
        "    r['more'] = r['ids'].tolist()\n    return r if r['n'] else None\n"
    )
    made = suite.check_handler(Maker(tmp_path, source), typed())
    assert made["ids"][1].tolist() == [7, 7] and made["ids"].values.dtype == np.uint16
    assert made["pair"].values.tolist() == [[4, 6], [8, 10], [12, 14], [16, 18]]
    assert made["score"].values.tolist() == [1.25, 1.5, 1.75, 2.0]
    assert made.row(0)["more"] == [7] and "body" not in made.row(0) and made.row(0)["raw"] == b"x"
    assert "body" not in made.schema and made.schema["text"].dtype == "json"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("record['ids'] = record['ids'].astype('int64')", "'ids', which is int64 of shape (0,), but came in as uint16"),
        ("record['ids'] = []", "'ids', which is list, but came in as uint16"),
        ("record['pair'] = record['pair'][:1]", "'pair', which is int32 of shape (1,)"),
        ("record['score'] = 'x'", "'score', which is str, but came in as float32"),
        ("record['raw'] = 'x'", "'raw', which is str, but came in as bytes"),
        ("del record['ids']", "returned no column 'ids', which came in as uint16"),
    ],
)
def test_typed_columns_that_change(tmp_path: Path, body: str, said: str) -> None:
    maker = Maker(tmp_path, f"def clean(record):\n    {body}\n    return record\n")
    assert said in suite.check_error(maker, typed(), 0, "").message


def test_fresh_processes(tmp_path: Path) -> None:
    maker = Maker(tmp_path, "def clean(r):\n    return {'s': sorted({'x', 'y', r['text']}), **r}\n")
    suite.check_fresh_processes("python@1", maker.arguments, ROWS, maker.resources)


def test_the_suite_sees_what_depends_on_hash_seeds(tmp_path: Path) -> None:
    maker = Maker(tmp_path, "def clean(r):\n    return {'s': list({'x' + str(i) for i in range(50)})}\n")
    with pytest.raises(AssertionError, match="PYTHONHASHSEED"):
        suite.check_fresh_processes("python@1", maker.arguments, ROWS, maker.resources)


def test_the_suite_sees_state_and_blocks(tmp_path: Path) -> None:
    source = "seen = []\ndef clean(r):\n    seen.append(1)\n    return {'s': len(seen)}\n"
    with pytest.raises(AssertionError, match="a second call gives other bytes"):
        run(tmp_path, source)
