"""Canonical encoding of values: the bytes that are hashed, the same on every machine and Python.

The dialect (version 1) is JSON in UTF-8: keys sorted by code point, no blanks, no escapes but those that JSON requires,
integers in full, decimals as exact ratios in lowest terms (``{"$ratio":[7,10]}``), absent values omitted. Keys of the
value that start with ``$`` get one more ``$``, so no value can forge a ratio. Floats, NaN and infinity are refused:
a float has no exact text that every reader agrees on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

VERSION = 1
_MAX_EXPONENT = 400

Value = Any
"""None (only as an absent mapping value), bool, int, str, Fraction, Decimal, list/tuple or mapping of these."""


def encode(value: Value) -> bytes:
    """The canonical bytes of ``value``.

    Raises ``TypeError`` for a type outside the dialect (float, bytes, set, None inside a list) and ``ValueError`` for a
    value outside it (NaN, infinity, lone surrogates, an exponent beyond 400).
    """
    text = json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"text with a lone surrogate at character {error.start} has no canonical form") from None


def decode(data: bytes) -> Value:
    """The value of canonical bytes; ratios come back as ``Fraction``. Raises ``ValueError`` for other bytes."""
    value = _rich(json.loads(data.decode("utf-8")))
    if encode(value) != data:
        raise ValueError("these bytes are not canonical")
    return value


def ratio(value: int | Decimal | Fraction) -> Fraction:
    """``value`` as an exact ratio. Raises ``ValueError`` for NaN, infinity and exponents beyond 400."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise ValueError(f"{value} is not a number")
        if abs(exponent) > _MAX_EXPONENT:
            raise ValueError(f"{value} has an exponent beyond {_MAX_EXPONENT}")
    return Fraction(value)


def _plain(value: Value) -> Any:
    if isinstance(value, bool | str) or type(value) is int:
        return value
    if isinstance(value, Decimal | Fraction):
        exact = ratio(value)
        return {"$ratio": [exact.numerator, exact.denominator]}
    if isinstance(value, Mapping):
        plain = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is {type(key).__name__}, not text")
            if item is not None:
                plain["$" + key if key.startswith("$") else key] = _plain(item)
        return plain
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain(item) for item in value]
    raise TypeError(f"{value!r} is {type(value).__name__}, which has no canonical form")


def _rich(value: Any) -> Value:
    if isinstance(value, float) or value is None:
        raise ValueError(f"{value!r} has no canonical form")
    if isinstance(value, list):
        return [_rich(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$ratio"}:
            numerator, denominator = value["$ratio"]
            return Fraction(numerator, denominator)
        return {key[1:] if key.startswith("$") else key: _rich(item) for key, item in value.items()}
    return value
