"""Tokenize: text becomes the token ids of the recipe's tokenizer.

BOS and EOS are put in as ids, never as text, and the text of a special token inside a record stays text unless
``[tokenizer] special = "token"``: a document cannot forge a boundary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dsbuild.canon import Value
from dsbuild.errors import LockError
from dsbuild.interfaces import Argument, Effect, Facts, RecordError, Resources, Tokenizer
from dsbuild.records import MISSING, Column, Records
from dsbuild.schema import Field

COLUMN = "input_ids"
TEXT = "text"
SMALL = 1 << 16
"""Vocabularies of at most this many ids are stored as uint16."""


class Tokenize:
    """Adds ``input_ids`` (ragged; uint16 or uint32 by the size of the vocabulary); other columns stay.

    Hashed: ``tokenizer`` (fingerprint), ``dtype``, and where they are not the default ``column``, ``eos``, ``bos``
    (ids), ``special``, ``library`` (class of the engine, where it has one).
    """

    name = "tokenize"
    version = 1
    arguments = (
        Argument(name="column", type="text", doc="the column of text", default=TEXT),
        Argument(name="add_eos", type="boolean", doc="append the EOS of [tokenizer]; default: where it has one"),
        Argument(name="add_bos", type="boolean", doc="prepend the BOS of [tokenizer]; default: where it has one"),
    )

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        self._column: str = arguments.get("column", TEXT)
        self._fingerprint: str = arguments["tokenizer"]
        self._dtype = np.dtype(arguments["dtype"])
        self._before = [arguments["bos"]] if "bos" in arguments else []
        self._after = [arguments["eos"]] if "eos" in arguments else []
        self._special = arguments.get("special", TEXT) == "token"
        self._resources = resources
        self._tokenizer: Tokenizer | None = None

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The hashed arguments. Raises ``ValueError`` without a tokenizer, or without the EOS or BOS asked for."""
        if facts.tokenizer is None:
            raise ValueError('the recipe has no [tokenizer]; file = "bytes" needs nothing')
        found: dict[str, Value] = {
            "tokenizer": facts.tokenizer.hex,
            "dtype": "uint16" if facts.vocabulary <= SMALL else "uint32",
        }
        if arguments.get("column", TEXT) != TEXT:
            found["column"] = arguments["column"]
        for name, token in (("eos", facts.eos), ("bos", facts.bos)):
            wanted = arguments.get(f"add_{name}")
            if wanted and token is None:
                raise ValueError(f"add_{name} = true, but [tokenizer] has no {name}")
            if wanted is not False and token is not None:
                found[name] = token
        if facts.special == "token":
            found["special"] = "token"
        if "tokenizers" in facts.libraries:
            found["library"] = {"tokenizers": facts.libraries["tokenizers"]}
        return found

    def effect(self) -> Effect:
        """Reads the text, makes ``input_ids``."""
        return Effect(needs=frozenset({self._column}), adds=(self._field,))

    @property
    def _field(self) -> Field:
        return Field(name=COLUMN, dtype=self._dtype.name, shape=(None,))

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``. Raises ``RecordError`` for a record whose column is missing or not text."""
        values, offsets = self._loaded().encode(self._texts(records), special=self._special)
        values, offsets = framed(values.astype(self._dtype, copy=False), offsets, self._before, self._after)
        return records.replace({COLUMN: (self._field, Column(values=values, offsets=offsets))})

    def _loaded(self) -> Tokenizer:
        if self._tokenizer is None:
            if self._resources.tokenizer is None:
                raise AssertionError("tokenize was given no tokenizer")
            found = self._resources.tokenizer()
            if found.fingerprint.hex != self._fingerprint:
                raise LockError(
                    f"the tokenizer has fingerprint {found.fingerprint.short}, not {self._fingerprint[:12]} as planned",
                    kind="lock-mismatch",
                    hint="it changed during the build; run 'dsbuild lock --update' and build again",
                )
            self._tokenizer = found
        return self._tokenizer

    def _texts(self, records: Records) -> list[str]:
        if self._column not in records.schema:
            if len(records):
                raise RecordError(0, f"tokenize: the record has no field '{self._column}'")
            return []
        column = records[self._column]
        texts: list[Any] = [column[row] for row in range(len(records))]
        for row, value in enumerate(texts):
            if value is MISSING:
                raise RecordError(row, f"tokenize: the record has no field '{self._column}'")
            if not isinstance(value, str):
                said = "null" if value is None else f"{type(value).__name__} {value!r:.40}"
                raise RecordError(row, f"tokenize: field '{self._column}' is {said}, not text")
        return texts


def framed(
    values: np.ndarray, offsets: np.ndarray, before: Sequence[int], after: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Ragged ``values`` with the ids ``before`` and ``after`` around each row; same dtype, new offsets."""
    extra = len(before) + len(after)
    if not extra:
        return values, offsets
    rows = len(offsets) - 1
    ends = offsets + np.arange(rows + 1, dtype=np.int64) * extra
    out = np.empty(int(ends[-1]), values.dtype)
    inside = np.ones(len(out), np.bool_)
    for k, token in enumerate(before):
        out[ends[:-1] + k] = token
        inside[ends[:-1] + k] = False
    for k, token in enumerate(after):
        at = ends[1:] - len(after) + k
        out[at] = token
        inside[at] = False
    out[inside] = values
    return out, ends
