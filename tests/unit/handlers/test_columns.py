"""rename, select, drop and copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsbuild.handlers.columns import Copy, Drop, Rename, Select
from dsbuild.interfaces import Facts, Resources
from dsbuild.records import Column, Records
from dsbuild.schema import Field
from dsbuild.testing import handlers as suite

ROWS = [{"a": 1, "b": [2]}, {"a": None, "b": "x", "c": 5}, {"a": {"k": 1}, "b": 0}]
IDS = Field(name="ids", dtype="uint16", shape=(None,))


def records() -> Records:
    values = np.arange(6, dtype=np.uint16)
    return suite.make_records(ROWS).replace({"ids": (IDS, Column(values=values, offsets=np.array([0, 1, 3, 6])))})


def run(cls: Any, columns: Any) -> list[dict[str, Any]]:
    arguments = suite.check_resolve(cls, {"columns": columns}, Facts(seed=0))
    made = suite.check_handler(lambda: cls(arguments, Resources()), records())
    return [
        {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in made.row(i).items()} for i in range(len(made))
    ]


def test_rename() -> None:
    made = run(Rename, {"a": "c", "ids": "input_ids"})
    assert made[1] == {"c": None, "b": "x", "input_ids": [1, 2]}
    assert made[2] == {"c": {"k": 1}, "b": 0, "input_ids": [3, 4, 5]}


def test_copy() -> None:
    assert run(Copy, {"a": "z", "ids": "more"})[0] == {"a": 1, "b": [2], "z": 1, "ids": [0], "more": [0]}


def test_select_and_drop() -> None:
    assert run(Select, ["ids", "c"]) == [{"ids": [0]}, {"ids": [1, 2], "c": 5}, {"ids": [3, 4, 5]}]
    assert run(Drop, ["ids", "c", "nowhere"]) == [{"a": 1, "b": [2]}, {"a": None, "b": "x"}, {"a": {"k": 1}, "b": 0}]


@pytest.mark.parametrize("cls", [Rename, Copy])
def test_a_missing_field_is_an_error(cls: Any) -> None:
    handler = cls({"columns": {"c": "d"}}, Resources())
    suite.check_error(lambda: handler, records(), 0, "the record has no field 'c'")
    only = records().take(np.array([1]))
    assert handler.apply(only).row(0)["d"] == 5
    nowhere = cls({"columns": {"e": "d"}}, Resources())
    suite.check_error(lambda: nowhere, records(), 0, "no field 'e'")


@pytest.mark.parametrize(
    ("cls", "columns", "said"),
    [
        (Rename, {"a": "a"}, "'a' to itself"),
        (Rename, {"a": "b", "c": "b"}, "'a' and 'c' would both be 'b'"),
        (Rename, {"a": "b", "b": "c"}, "'b' is an old and a new name"),
        (Rename, {}, "names none"),
        (Rename, {"@key": "k"}, "'@key'"),
        (Copy, {"a": "@key"}, "'@key'"),
        (Select, [], "names none"),
        (Select, [""], "''"),
        (Drop, ["@record"], "'@record'"),
    ],
)
def test_refused(cls: Any, columns: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        cls.resolve({"columns": columns}, Facts(seed=0))


def test_order_of_names_says_nothing() -> None:
    assert Select.resolve({"columns": ["b", "a", "b"]}, Facts(seed=0)) == {"columns": ["a", "b"]}
