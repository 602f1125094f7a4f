from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dsbuild import canon
from dsbuild.digest import Domain, of_value

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "canon.json").read_text("utf-8"))


def value_of(tagged: Any) -> Any:
    """Golden values are JSON with decimals as {"decimal": "0.7"}."""
    if isinstance(tagged, dict):
        if set(tagged) == {"decimal"}:
            return Decimal(tagged["decimal"])
        return {k: value_of(v) for k, v in tagged.items()}
    return [value_of(v) for v in tagged] if isinstance(tagged, list) else tagged


@pytest.mark.parametrize("row", GOLDEN, ids=[r["name"] for r in GOLDEN])
def test_golden(row: dict[str, Any]) -> None:
    value = value_of(row["value"])
    assert canon.encode(value).decode() == row["canonical"]
    assert of_value(Domain.DERIVATION, value).hex == row["derivation"]


def test_equal_numbers_are_equal_ratios() -> None:
    assert canon.encode(Decimal("0.70")) == canon.encode(Fraction(7, 10)) == canon.encode(Decimal("7e-1"))
    assert canon.encode(1) != canon.encode(Decimal("1.0"))


@pytest.mark.parametrize("value", [1.5, b"x", {1: 2}, [None], {"a": {1, 2}}, object()])
def test_types_outside_the_dialect(value: Any) -> None:
    with pytest.raises(TypeError):
        canon.encode(value)


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), "\ud800", Decimal("1e401")])
def test_values_outside_the_dialect(value: Any) -> None:
    with pytest.raises(ValueError):
        canon.encode(value)


@pytest.mark.parametrize("data", [b'{"b":1,"a":2}', b"[1, 2]", b"1.5", b"[null]", b'"\\u00e9"', b'{"$ratio":[2,4]}'])
def test_other_bytes_do_not_decode(data: bytes) -> None:
    with pytest.raises(ValueError):
        canon.decode(data)
