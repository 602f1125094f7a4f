"""keep on records; its language has tests of its own."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from dsbuild.handlers.keep import Keep
from dsbuild.interfaces import Facts, Resources
from dsbuild.records import Column
from dsbuild.schema import Field
from dsbuild.testing import handlers as suite

ROWS = [{"text": "a" * n, "other": n} | ({"lang": "de"} if n % 2 else {}) for n in range(7)]


def keep(where: str) -> Keep:
    return Keep(Keep.resolve({"where": where}, Facts(seed=0)), Resources())


def kept(where: str) -> list[int]:
    made = suite.check_handler(lambda: keep(where), suite.make_records(ROWS))
    return [made.row(i)["other"] for i in range(len(made))]


def test_keep() -> None:
    assert kept("len(text) >= 5") == [5, 6]
    assert kept("has(lang)") == [1, 3, 5]
    assert kept("missing(lang) or other > 2") == [0, 2, 3, 4, 5, 6]
    assert kept("missing(nowhere)") == list(range(7))
    assert kept("false") == []


def test_arrays_and_numbers() -> None:
    ids = Field(name="input_ids", dtype="uint16", shape=(None,))
    column = Column(values=np.arange(6, dtype=np.uint16), offsets=np.array([0, 1, 3, 6]))
    score = (Field(name="score", dtype="float32"), Column(values=np.array([0.5, 1.5, 2.5], np.float32)))
    records = suite.make_records([{}] * 3).replace({"input_ids": (ids, column), "score": score})
    made = suite.check_handler(lambda: keep("len(input_ids) >= 2 and score < 2 and 1 in input_ids"), records)
    assert made["input_ids"][0].tolist() == [1, 2]


def test_hashed_form() -> None:
    facts = Facts(seed=7)
    assert Keep.resolve({"where": "len( text )>=2"}, facts) == {"where": "len(text) >= 2"}
    facts = Facts(seed=7, libraries={"unicode": "14.0.0", "tokenizers": "0.1"})
    assert Keep.resolve({"where": "text.lower() == 'a'"}, facts)["library"] == {"unicode": "14.0.0"}
    assert Keep.resolve({"where": "upper(a) == 'A'"}, Facts(seed=7))["library"] == {
        "unicode": unicodedata.unidata_version
    }
    assert keep("a > 1 and meta['x'] == b").effect().needs == {"a", "b", "meta"}


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"where: .*at character 6 of 'a >= '"):
        keep("a >= ")
    records = suite.make_records([{"a": 1}, {"b": 2}, {"a": "x"}])
    suite.check_error(lambda: keep("a > 0"), records, 1, "keep where a > 0: the record has no field 'a'")
    suite.check_error(lambda: keep("has(b) or a > 0"), records, 2, "not text and a number")
    suite.check_error(lambda: keep("missing(a) or a + 0"), records, 0, "'or' takes true or false, not a number")
    error = suite.check_error(lambda: keep("len([a])"), suite.make_records([{"a": 1}]), 0, "gave 1, not true or false")
    assert error.hint


def test_fresh_processes() -> None:
    suite.check_fresh_processes("keep@1", {"where": "len(text) > 2"}, ROWS)
