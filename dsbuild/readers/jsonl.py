"""JSON Lines: one JSON object a line (``jsonl@1``).

The meaning of a line never changes: RFC 8259 and no more. Numbers without point or exponent are exact integers of at
most 4,300 digits, others are the nearest float64 and must be finite; of duplicate keys the last wins; ``NaN``, raw
control characters, lone surrogates, nesting beyond 256 and values that are not objects are refused.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

from dsbuild.canon import Value
from dsbuild.interfaces import Argument, Cut, CutRule, CutTable, Skip
from dsbuild.readers import lines
from dsbuild.readers.decompress import is_compressed, with_compressed
from dsbuild.readers.faults import Fault, decode, excerpt
from dsbuild.readers.keys import split_keys
from dsbuild.readers.names import column_name
from dsbuild.records import MISSING, Column, Records, from_rows
from dsbuild.schema import KEY, RECORD, Field, Schema

DEPTH = 256
"""Objects and lists inside each other, at most: well below where any Python's parser gives up."""

DIGITS = 4300
"""Digits of an integer, at most: Python's own limit, which keeps parsing linear."""

_FORM = lines.Form()
_SPACE = " \t\r\n"
_NAMES = 10_000


@final
class JsonLines:
    """Reads JSON Lines; every field is a ``json`` column. ``@key``: of the bytes of the line without its end."""

    name = "jsonl"
    version = 1
    suffixes = with_compressed(".jsonl", ".ndjson")
    arguments: tuple[Argument, ...] = ()

    def whole(self, path: Path, size: int, rule: CutRule) -> bool:
        """Small plain files are one cut."""
        return size <= rule.least and not is_compressed(path)

    def split(self, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
        """Cut at ends of lines that their content chooses."""
        return CutTable(cuts=lines.split(path, rule, _FORM)[0])

    def read(
        self,
        path: Path,
        cut: Cut,
        context: Mapping[str, Value],
        arguments: Mapping[str, Value],
        *,
        columns: frozenset[str] | None = None,
        skipped: list[Skip] | None = None,
    ) -> Iterator[Records]:
        """The records of a cut. ``columns`` are all made, ``MISSING`` where a record lacks them.

        Without ``columns`` a field whose name can't name a column is a ``bad-record``.
        """
        wanted = None if columns is None else sorted(c for c in columns if not c.startswith("@"))
        for found in lines.parsed(path, cut, _FORM, parser(every=wanted is None), skipped):
            keys = split_keys(found.raw)
            if wanted is None:
                yield from_rows(found.values, keys, found.numbers)
                continue
            made = {KEY: Column(values=keys), RECORD: Column(values=found.numbers)}
            for name in wanted:
                made[name] = Column(values=[row.get(name, MISSING) for row in found.values])
            yield Records(schema=_schema(wanted), columns=made)

    def locate(
        self, path: Path, cut: Cut, context: Mapping[str, Value], arguments: Mapping[str, Value], record: int
    ) -> str:
        """ "line N"."""
        return lines.locate(path, cut, _FORM, record)


def parser(*, every: bool) -> Callable[[bytes], dict[str, Any]]:
    """The function from a line to its object, raising ``Fault``. ``every``: check the names of all fields."""
    limited = sys.get_int_max_str_digits() != DIGITS  # else Python's own limit is ours, at full speed
    decoder = json.JSONDecoder(
        parse_constant=_constant, parse_float=_float, parse_int=_integer if limited else int, strict=True
    )
    scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]
    good: set[str] = set()

    def parse(raw: bytes) -> dict[str, Any]:
        text = decode(raw).strip(_SPACE)
        try:
            value, end = scan(text, 0)
        except (StopIteration, ValueError, RecursionError) as error:
            raise _syntax(raw, text, error) from None
        if end != len(text):
            raise _at(raw, text, end, "not JSON: something follows the value")
        if type(value) is not dict:
            raise Fault(f"not an object but {_KINDS.get(type(value), 'another value')}", detail=f"'{excerpt(text)}'")
        known = good.issuperset(value)
        wide, nested = not known, False
        for item in value.values():  # nearly all records are flat and most are ASCII: told without a scan
            kind = type(item)
            if kind is str:
                wide = wide or not item.isascii()
            elif kind is dict or kind is list:
                nested = True
        if (wide or nested) and ("\\ud" in text or "\\uD" in text):
            _check_surrogates(value)
        if nested and text.count("[") + text.count("{") > DEPTH:
            _check_depth(value)
        if not known:
            names = [column_name(name) for name in value] if every else value
            if len(good) < _NAMES:
                good.update(names)
        return value

    return parse


_KINDS = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _syntax(raw: bytes, text: str, error: Exception) -> Fault:
    """What a JSON error means, in words that do not depend on Python's version."""
    if isinstance(error, StopIteration):
        return _at(raw, text, int(error.value), "not JSON")
    if isinstance(error, json.JSONDecodeError):
        return _at(raw, text, error.pos, "not JSON", f"{error.msg[:1].lower()}{error.msg[1:]}")
    if isinstance(error, RecursionError):
        return Fault(f"nested deeper than {DEPTH} levels")
    if isinstance(error, _NumberError):
        return Fault(str(error), detail=f"'{excerpt(error.seen)}'")
    return Fault(f"an integer of more than {DIGITS} digits")


def _at(raw: bytes, text: str, position: int, reason: str, what: str = "") -> Fault:
    """A fault at character ``position`` of the stripped ``text`` of ``raw``."""
    lead = len(raw) - len(raw.lstrip(b" \t\r\n"))
    at = lead + len(text[:position].encode("utf-8"))
    seen = f"'{excerpt(text, position)}'" if position < len(text) else f"the line ends after '{excerpt(text[-24:])}'"
    return Fault(reason, detail=f"{what}, at character {position + 1}: {seen}".removeprefix(", "), at=at)


class _NumberError(ValueError):
    def __init__(self, what: str, seen: str) -> None:
        super().__init__(what)
        self.seen = seen


def _constant(text: str) -> Any:
    raise _NumberError("not JSON: NaN and Infinity are no numbers of JSON", text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _NumberError("a number beyond the range of float64", text)
    return value


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise _NumberError(f"an integer of more than {DIGITS} digits", text)
    return int(text)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise Fault(f"nested deeper than {DEPTH} levels")


def _check_surrogates(value: Any) -> None:
    """Half a pair can only come from an escape, and then only UTF-8 encoding refuses it."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise Fault("half of a surrogate pair, which is no character", detail=f"'{half}'") from None


def _schema(wanted: list[str]) -> Schema:
    own = (Field(name=KEY, dtype="uint64"), Field(name=RECORD, dtype="int64"))
    return Schema.of(*own, *(Field(name=name, dtype="json") for name in wanted))
