"""Values of user Python: fresh copies of what goes in, and a strict check of what comes out.

What comes out must be what JSON can say, because that is what a record is when it is stored and hashed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dsbuild.schema import Field

MAX_DEPTH = 200
MAX_BITS = 13_000
"""About 3,900 digits: beyond 4,300 Python itself refuses to print an integer."""


class ValueProblem(ValueError):
    """A value that a record can't hold: the ``message`` follows the column's name, ``hint`` is the way out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def copy_in(value: Any) -> Any:
    """A copy that shares nothing mutable with ``value`` (a column's value)."""
    if isinstance(value, list):
        return [copy_in(item) for item in value]
    if isinstance(value, dict):
        return {key: copy_in(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    return _plain(value)


def argument(value: Any) -> Any:
    """An argument of a recipe as user Python gets it: decimals as the nearest float, integers exact."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, Mapping):
        return {key: argument(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [argument(item) for item in value]
    return value


def json_out(value: Any, depth: int = 0) -> Any:
    """``value`` as plain JSON values, copied: tuples become lists. Raises ``ValueProblem``."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueProblem(f"is an integer of {value.bit_length()} bits", f"at most {MAX_BITS}")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueProblem(f"is {value}, which JSON can't say", "return None, or leave the record out")
        return float(value)
    if depth >= MAX_DEPTH:
        raise ValueProblem(f"is nested deeper than {MAX_DEPTH}")
    if isinstance(value, list | tuple):
        return [json_out(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_key(key): json_out(item, depth + 1) for key, item in value.items()}
    raise ValueProblem(f"is {_name(value)}, which a record can't hold", _way_out(value))


def typed_out(field: Field, value: Any) -> Any:
    """``value`` of a column that came in with a dtype: it must fit that. Raises ``ValueProblem``."""
    if field.dtype == "text":
        if not isinstance(value, str):
            raise ValueProblem(f"is {_name(value)}, but came in as text", "give it another name")
        return _text(value)
    if field.dtype == "bytes":
        if not isinstance(value, bytes):
            raise ValueProblem(f"is {_name(value)}, but came in as bytes", "give it another name")
        return value
    wanted = np.dtype(field.dtype)
    if field.shape:
        shape = (
            (value.shape[0] if field.shape[0] is None else field.shape[0], *field.shape[1:]) if _array(value) else ()
        )
        if not _array(value) or value.dtype != wanted or value.shape != shape:
            seen = f"{value.dtype} of shape {value.shape}" if _array(value) else _name(value)
            hint = f"return numpy.asarray(…, '{field.dtype}')"
            raise ValueProblem(f"is {seen}, but came in as {field.dtype} of {len(field.shape)} axes", hint)
        return value.copy()
    return _number(field, wanted, value)


def _number(field: Field, wanted: np.dtype[Any], value: Any) -> Any:
    value = _plain(value)
    kinds: Any = {"b": bool, "u": int, "i": int, "f": int | float}
    if not isinstance(value, kinds[wanted.kind]) or (isinstance(value, bool) and wanted.kind != "b"):
        raise ValueProblem(f"is {_name(value)}, but came in as {field.dtype}", "give it another name")
    if wanted.kind in "ui":
        limits = np.iinfo(wanted)
        if not limits.min <= value <= limits.max:
            raise ValueProblem(f"is {value}, which does not fit {field.dtype}", "give it another name")
    return wanted.type(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        hint = "text.encode('utf-8', 'replace').decode() replaces them"
        raise ValueProblem(f"has a lone surrogate at character {error.start}", hint) from None
    return str.__str__(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueProblem(f"has the key {key!r}, which is {_name(key)}", "keys are text: str(key)")
    return _text(key)


def _name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ in ("builtins", "None") else f"{kind.__module__}.{kind.__name__}"


def _way_out(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "value.tolist()"
    if isinstance(value, np.generic):
        return "value.item()"
    if isinstance(value, bytes | bytearray):
        return "value.decode()"
    if isinstance(value, set | frozenset):
        return "sorted(value)"
    return "text, numbers, true, false, null, lists and tables of those"
