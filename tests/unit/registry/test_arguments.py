"""What users write for a plug-in, held against what it takes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from dsbuild.interfaces import Argument
from dsbuild.registry import check_arguments


def argument(type: str, **more: Any) -> Argument:
    return Argument(name="x", type=type, doc="what it is", **more)


@pytest.mark.parametrize(
    ("type", "value", "fits"),
    [
        ("text", "a", True),
        ("text", 1, False),
        ("integer", 3, True),
        ("integer", True, False),
        ("integer", Fraction(3, 2), False),
        ("decimal", Decimal("0.1"), True),
        ("decimal", 2, True),
        ("decimal", False, False),
        ("boolean", True, True),
        ("boolean", 1, False),
        ("names", ["a", "b"], True),
        ("names", ["a", 1], False),
        ("names", "ab", False),
        ("mapping", {"a": "b"}, True),
        ("mapping", {"a": 1}, False),
        ("mapping", ["a"], False),
        ("value", [{"a": 1}], True),
    ],
)
def test_types(type: str, value: Any, fits: bool) -> None:
    checked, problems = check_arguments((argument(type),), {"x": value})
    assert (bool(checked), len(problems)) == (fits, 0 if fits else 1)
    for name, message, hint in problems:
        assert (name, hint) == ("x", "what it is") and message.startswith("'x' is ")


def test_decimals_are_exact() -> None:
    assert check_arguments((argument("decimal"),), {"x": Decimal("0.1")})[0] == {"x": Fraction(1, 10)}


def test_defaults_are_not_filled_in() -> None:
    assert check_arguments((argument("text", default="d"),), {}) == ({}, [])


def test_all_problems_at_once() -> None:
    takes = (
        Argument(name="column", type="text", doc="the column"),
        Argument(name="mode", type="text", doc="how", choices=("fast", "slow")),
        Argument(name="size", type="integer", doc="how much", required=True),
    )
    checked, problems = check_arguments(takes, {"colum": "a", "mode": "fst", "column": 3, "zzzzz": 1})
    assert checked == {}
    assert problems == [
        ("colum", "no argument 'colum'", "it takes size"),
        ("mode", "'mode' is 'fst', which is no choice", "did you mean 'fast'?"),
        ("column", "'column' is the number 3, not text", "the column"),
        ("zzzzz", "no argument 'zzzzz'", "it takes size"),
        (None, "needs the argument 'size'", "how much"),
    ]
    assert check_arguments(takes, {"colum": "a", "size": 1})[1] == [
        ("colum", "no argument 'colum'", "did you mean 'column'?")
    ]
    assert check_arguments((), {"a": 1})[1] == [("a", "no argument 'a'", "it takes no other")]
