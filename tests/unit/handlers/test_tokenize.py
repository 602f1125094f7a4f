"""tokenize, with the built-in tokenizer and with one made here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.digest import Digest
from dsbuild.errors import LockError
from dsbuild.handlers.tokenize import Tokenize, framed
from dsbuild.interfaces import Facts, Resources
from dsbuild.records import Column, Records
from dsbuild.schema import Field
from dsbuild.testing import handlers as suite
from dsbuild.tokenizers import load_tokenizer

BYTES = load_tokenizer("bytes", Path())
FACTS = Facts(seed=0, tokenizer=BYTES.fingerprint, vocabulary=BYTES.size, eos=256)
RESOURCES = Resources(tokenizer=lambda: BYTES)
ROWS: list[dict[str, Any]] = [{"text": "ab", "id": 1}, {"text": "", "id": 2}, {"text": "é\0", "id": 3}]


def make(facts: Facts = FACTS, **arguments: Any) -> Tokenize:
    return Tokenize(Tokenize.resolve(arguments, facts), RESOURCES)


def ids(records: Records) -> list[list[int]]:
    return [records["input_ids"][i].tolist() for i in range(len(records))]


def test_tokenize() -> None:
    made = suite.check_handler(make, suite.make_records(ROWS))
    assert ids(made) == [[97, 98, 256], [256], [195, 169, 0, 256]]
    assert made["input_ids"].values.dtype == np.uint16
    assert made["id"].values == [1, 2, 3]


def test_another_column_and_bos() -> None:
    facts = replace(FACTS, bos=257)
    records = suite.make_records([{"body": r["text"]} for r in ROWS])
    made = suite.check_handler(lambda: make(facts, column="body"), records)
    assert ids(made) == [[257, 97, 98, 256], [257, 256], [257, 195, 169, 0, 256]]
    assert ids(make(facts, column="body", add_eos=False, add_bos=False).apply(records))[0] == [97, 98]


def test_hashed_form() -> None:
    fingerprint = BYTES.fingerprint.hex
    assert suite.check_resolve(Tokenize, {}, FACTS) == {"tokenizer": fingerprint, "dtype": "uint16", "eos": 256}
    same = {"column": "text", "add_eos": True}
    assert Tokenize.resolve(same, FACTS) == Tokenize.resolve({}, FACTS)
    facts = replace(FACTS, vocabulary=65_537, bos=1, eos=None, special="token", libraries={"tokenizers": "0.21"})
    assert suite.check_resolve(Tokenize, {"column": "body"}, facts) == {
        "tokenizer": fingerprint,
        "dtype": "uint32",
        "column": "body",
        "bos": 1,
        "special": "token",
        "library": {"tokenizers": "0.21"},
    }
    assert Tokenize.resolve({}, replace(facts, vocabulary=65_536))["dtype"] == "uint16"


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"no \[tokenizer\]"):
        Tokenize.resolve({}, Facts(seed=0))
    with pytest.raises(ValueError, match="has no bos"):
        Tokenize.resolve({"add_bos": True}, FACTS)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": 1}, "no field 'text'"),
        ({"text": None}, "field 'text' is null, not text"),
        ({"text": 3.5}, "field 'text' is float 3.5, not text"),
        ({"text": ["a"]}, "field 'text' is list ['a'], not text"),
        ({"text": "a\ud800"}, "lone surrogate at character 1"),
    ],
)
def test_records_that_are_no_text(row: dict[str, Any], said: str) -> None:
    suite.check_error(make, suite.make_records([ROWS[0], row, ROWS[1]]), 1, said)


def test_a_column_that_no_record_has() -> None:
    suite.check_error(make, suite.make_records([{"a": 1}]), 0, "no field 'text'")
    assert ids(make().apply(suite.make_records([]))) == []


def test_a_column_of_numbers() -> None:
    field = Field(name="text", dtype="int64")
    records = suite.make_records([{}]).replace({"text": (field, Column(values=np.array([7])))})
    suite.check_error(make, records, 0, "not text")


def test_a_tokenizer_that_changed() -> None:
    facts = replace(FACTS, tokenizer=Digest(bytes(32)))
    with pytest.raises(LockError, match="not 000000000000 as planned"):
        make(facts).apply(suite.make_records(ROWS))


def test_framed() -> None:
    values, offsets = framed(np.array([1, 2, 3], np.uint16), np.array([0, 0, 2, 3]), [8, 9], [7])
    assert values.tolist() == [8, 9, 7, 8, 9, 1, 2, 7, 8, 9, 3, 7]
    assert offsets.tolist() == [0, 3, 8, 12]
    assert values.dtype == np.uint16


def test_fresh_processes() -> None:
    suite.check_fresh_processes("tokenize@1", Tokenize.resolve({}, FACTS), ROWS, tokenizer=("bytes", Path()))
