"""Splits: borders by example, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dsbuild.order.split import KEYS, Range, choose, ranges, thresholds


def test_borders_are_in_code_point_order() -> None:
    found = thresholds({"valid": Fraction(1, 4), "train": Fraction(1, 2), "Z": Fraction(1, 4)})
    assert found == {"Z": (0, KEYS // 4), "train": (KEYS // 4, 3 * KEYS // 4), "valid": (3 * KEYS // 4, KEYS)}
    assert thresholds({"a": Fraction(1, 3), "b": Fraction(1, 3)})["b"] == (KEYS // 3, 2 * KEYS // 3)


def test_choose() -> None:
    keys = np.array([0, 5, 9, KEYS - 1], np.uint64)
    assert choose(keys, 5, 9).tolist() == [False, True, False, False]
    assert choose(keys, 9, KEYS).tolist() == [False, False, True, True]
    assert choose(keys, 5, 5).tolist() == [False] * 4


def test_counts_come_before_fractions() -> None:
    keys = np.array([KEYS - 1, 7, 3, 3, 9], np.uint64)
    found = ranges({"valid": 2, "train": Fraction(1), "test": 1}, keys)
    assert list(found) == ["test", "train", "valid"]
    assert found["test"] == Range(low=(0, 0), high=(3, 3))
    chosen = {name: np.flatnonzero(part.choose(keys)).tolist() for name, part in found.items()}
    assert chosen == {"test": [2], "valid": [1, 3], "train": [0, 4]}


@pytest.mark.parametrize(
    ("spec", "keys", "message"),
    [
        ({"a": Fraction(0)}, None, "'a' is 0"),
        ({"a": Fraction(3, 2)}, None, "'a' is 3/2"),
        ({"a": Fraction(2, 3), "b": Fraction(1, 2)}, None, "sum 7/6"),
        ({"a": 3}, None, "keys of all"),
        ({"a": 3}, [1, 2], "only 2 records"),
        ({"a": 0}, [1, 2], "at least 1"),
        ({"a": True}, [1, 2], "at least 1"),
    ],
)
def test_refusals(spec: dict[str, Any], keys: list[int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ranges(spec, None if keys is None else np.array(keys, np.uint64))
