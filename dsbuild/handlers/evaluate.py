"""Evaluate: an expression's tree as a function of a record.

Strict where Python is not: ``and``, ``or`` and ``not`` take true and false only, a truth value never equals a number,
arithmetic takes numbers (``+`` also two texts), and results are bounded in size.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dsbuild.handlers.expression import MAX_BITS, Apply, Compare, Constant, Item, Name, Node
from dsbuild.records import MISSING

MAX_TEXT = 1 << 28
_BLANKS = " \t\n\r\v\f"

Row = Mapping[str, Any]
Function = Callable[[Row], Any]


class EvaluationError(ValueError):
    """A record on which the expression has no value; the text says which value, of what type."""


def compiled(node: Node) -> Function:
    """A function that gives the value of ``node`` for a record; it raises ``EvaluationError``."""
    match node:
        case Constant(value):
            return lambda row: value
        case Name(name):
            return _field(name)
        case Item(of, key):
            return _item(compiled(of), key)
        case Compare(operators, operands):
            return _compare([_COMPARE[o] for o in operators], [compiled(n) for n in operands])
        case Apply("has", arguments):
            return _has(compiled(arguments[0]))
        case Apply("and", arguments):
            return _all([compiled(a) for a in arguments], "and", True)
        case Apply("or", arguments):
            return _all([compiled(a) for a in arguments], "or", False)
        case Apply("list", arguments):
            parts = [compiled(a) for a in arguments]
            return lambda row: [part(row) for part in parts]
        case Apply(name, arguments):
            return _apply(_CALLS[name], [compiled(a) for a in arguments])


class _Absent(EvaluationError):
    """A missing field: what ``has`` looks for."""


def _field(name: str) -> Function:
    def value(row: Row) -> Any:
        found = row[name]
        if found is MISSING:
            raise _Absent(f"the record has no field '{name}'; has({name}) tests for it")
        return found.item() if isinstance(found, np.generic) else found

    return value


def _item(of: Function, key: str | int) -> Function:
    def value(row: Row) -> Any:
        outer = of(row)
        if isinstance(key, str):
            if not isinstance(outer, dict):
                raise _Absent(f"[{key!r}] of {_kind(outer)}, which has no named fields")
            if key not in outer:
                raise _Absent(f"there is no [{key!r}]; has(…) tests for it")
            return outer[key]
        if not isinstance(outer, list | np.ndarray):
            raise _Absent(f"[{key}] of {_kind(outer)}, which is no list")
        if not -len(outer) <= key < len(outer):
            raise _Absent(f"[{key}] of a list of {len(outer)}; has(…) tests for it")
        found = outer[key]
        return found.item() if isinstance(found, np.generic) else found

    return value


def _has(of: Function) -> Function:
    def value(row: Row) -> bool:
        try:
            of(row)
        except _Absent:
            return False
        return True

    return value


def _all(parts: list[Function], name: str, go_on: bool) -> Function:
    def value(row: Row) -> bool:
        for part in parts:
            found = part(row)
            if found is not True and found is not False:
                raise EvaluationError(f"'{name}' takes true or false, not {_kind(found)}")
            if found is not go_on:
                return not go_on
        return go_on

    return value


def _apply(call: Callable[..., Any], parts: list[Function]) -> Function:
    if len(parts) == 1:
        only = parts[0]
        return lambda row: call(only(row))
    return lambda row: call(*[part(row) for part in parts])


def _compare(operators: list[Callable[[Any, Any], bool]], parts: list[Function]) -> Function:
    def value(row: Row) -> bool:
        left = parts[0](row)
        for compare, part in zip(operators, parts[1:], strict=True):
            right = part(row)
            if not compare(left, right):
                return False
            left = right
        return True

    return value


def _kind(value: Any) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return "none" if value is None else names.get(type(value), type(value).__name__)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is no number, 1 is 1.0, lists and tables by their items."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        raise EvaluationError("columns of arrays can't be compared as a whole; use len(…) or [ ]")
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(x, b[k]) for k, x in a.items())
    return bool(a == b)


def _ordered(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def call(a: Any, b: Any) -> bool:
        if (_number(a) and _number(b)) or (isinstance(a, str) and isinstance(b, str)):
            return compare(a, b)
        raise EvaluationError(f"'{name}' compares two numbers or two texts, not {_kind(a)} and {_kind(b)}")

    return call


def _within(a: Any, b: Any) -> bool:
    if isinstance(b, str):
        if not isinstance(a, str):
            raise EvaluationError(f"'in' looks for text in text, not for {_kind(a)}")
        return a in b
    if isinstance(b, dict):
        return isinstance(a, str) and a in b
    if isinstance(b, np.ndarray) and b.ndim == 1:
        return _number(a) and bool((b == a).any())
    if isinstance(b, list):
        return any(equal(a, item) for item in b)
    raise EvaluationError(f"'in' looks into text, a list or a table, not into {_kind(b)}")


def _sized(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise EvaluationError(f"a number of more than {MAX_BITS} bits")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise EvaluationError(f"a text of more than {MAX_TEXT} characters")
    if isinstance(value, float) and not math.isfinite(value):
        raise EvaluationError("a number that is too large")
    return value


def _arithmetic(name: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(a: Any, b: Any) -> Any:
        texts = name == "+" and isinstance(a, str) and isinstance(b, str)
        if not texts and not (_number(a) and _number(b)):
            raise EvaluationError(f"'{name}' takes numbers, not {_kind(a)} and {_kind(b)}")
        try:
            return _sized(compute(a, b))
        except ZeroDivisionError:
            raise EvaluationError(f"{_sized(a)} {name} 0") from None
        except OverflowError:
            raise EvaluationError(f"'{name}' of numbers that are too large") from None

    return call


def _text(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        for value in values:
            if not isinstance(value, str):
                raise EvaluationError(f"{name} takes text, not {_kind(value)}")
        return compute(*values)

    return call


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict | bytes | np.ndarray):
        raise EvaluationError(f"len takes text, a list or a table, not {_kind(value)}")
    return len(value)


def _extreme(name: str, compute: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        found = list(values)
        if len(values) == 1:
            found = values[0].tolist() if isinstance(values[0], np.ndarray) else values[0]
        if not isinstance(found, list) or not found or not all(_number(v) for v in found):
            raise EvaluationError(f"{name} takes numbers, or a list of at least one number")
        return compute(found)

    return call


def _numeric(name: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        if not _number(value):
            raise EvaluationError(f"{name} takes a number, not {_kind(value)}")
        return compute(value)

    return call


def _not(value: Any) -> bool:
    if value is not True and value is not False:
        raise EvaluationError(f"'not' takes true or false, not {_kind(value)}")
    return not value


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
    "<": _ordered("<", operator.lt),
    "<=": _ordered("<=", operator.le),
    ">": _ordered(">", operator.gt),
    ">=": _ordered(">=", operator.ge),
    "in": _within,
    "not in": lambda a, b: not _within(a, b),
}
_CALLS: dict[str, Callable[..., Any]] = {
    "+": _arithmetic("+", operator.add),
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", operator.truediv),
    "//": _arithmetic("//", operator.floordiv),
    "%": _arithmetic("%", operator.mod),
    "neg": _numeric("-", operator.neg),
    "abs": _numeric("abs", abs),
    "not": _not,
    "len": _length,
    "lower": _text("lower", str.lower),
    "upper": _text("upper", str.upper),
    "strip": _text("strip", lambda text: text.strip(_BLANKS)),
    "startswith": _text("startswith", str.startswith),
    "endswith": _text("endswith", str.endswith),
    "contains": lambda whole, part: _within(part, whole),
    "min": _extreme("min", min),
    "max": _extreme("max", max),
}
