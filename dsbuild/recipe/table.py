"""Table: a table of the recipe being read, every wrong key and value of it reported instead of raised.

Getters give a harmless value of the right type where the recipe's is wrong, so that reading goes on and one run shows
all mistakes; whoever made a ``Report`` raises it before the values are used.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dsbuild import canon
from dsbuild.errors import Diagnostic, RecipeError
from dsbuild.recipe.places import Places
from dsbuild.recipe.suggest import did_you_mean, nearest
from dsbuild.recipe.types import KeyPath, place_of

MOST = 100
"""Mistakes shown in one run; the reading ends at twice as many."""

_BITS = 2048
_DIGITS = 400

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN = 60


def shown(value: Any) -> str:
    """A value as the recipe would write it, in one short line that is safe to print."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, Mapping):
        return "a table"
    elif isinstance(value, Sequence):
        return "a list" if value else "an empty list"
    elif value is None:
        return "null"
    elif isinstance(value, int) and value.bit_length() > 256:
        return "a very long integer"
    else:
        text = str(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def dotted(path: KeyPath) -> str:
    """A key path as TOML writes it: ``source.web.handlers[1].use``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if _BARE.fullmatch(part) and len(part) <= _SHOWN else shown(part))
    return text


@dataclass(slots=True, kw_only=True)
class Report:
    """Mistakes found so far, with the places to show them at."""

    path: Path
    places: Places
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, kind: str, path: KeyPath, message: str, hint: str | None = None, *, key: bool = False) -> None:
        """Report a mistake in the value at ``path``, or (``key``) in the key itself."""
        at = self.places.keys.get(path) if key else None
        where = at or place_of(self.places.values, path, str(self.path))
        name = dotted(path)
        self.found.append(
            Diagnostic(message=f"{name}: {message}" if name else message, kind=kind, where=where, hint=hint)
        )
        if len(self.found) >= 2 * MOST:
            self.raise_found()

    def raise_found(self) -> None:
        """Raises ``RecipeError`` with all mistakes in the order of the file, if there are any."""
        if not self.found:
            return
        by_place = sorted(
            self.found, key=lambda d: (0, d.where.line, d.where.column or 0) if d.where and d.where.line else (1, 0, 0)
        )
        shown_ones = list(dict.fromkeys(by_place))
        if len(shown_ones) > MOST:
            more = Diagnostic(message="and more mistakes, not shown", kind=shown_ones[MOST].kind)
            shown_ones = [*shown_ones[:MOST], more]
        raise RecipeError(diagnostics=shown_ones)


@dataclass(slots=True, kw_only=True)
class Table:
    """The table at ``path``; where the recipe has something else there, ``values`` is empty and nothing is missed."""

    report: Report
    path: KeyPath
    values: Mapping[str, Any]
    is_table: bool = True
    meant: set[str] = field(default_factory=set)

    def has(self, key: str) -> bool:
        """Whether the key is there, right or wrong."""
        return key in self.values

    def lacks(self, key: str) -> bool:
        """Whether the key is missing: not there, not misspelt, in something that is a table."""
        return self.is_table and not self.has(key) and key not in self.meant

    def at(self, key: str) -> KeyPath:
        """The key's path."""
        return (*self.path, key)

    def only(self, known: Sequence[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """Report keys that are not ``known``. ``elsewhere``: key -> the table in which it belongs.

        A known key that an unknown one was meant to be is then not missing too: one mistake, one diagnostic.
        """
        for key in self.values:
            if key not in known:
                near = nearest(key, known)
                hint = near and f"did you mean '{near}'?"
                self.meant |= {near} if near else set()
                if hint is None and key in (elsewhere or {}):
                    hint = f"'{key}' belongs in {(elsewhere or {})[key]}"
                hint = hint or (f"keys here: {', '.join(known)}" if known else None)
                self.report.add("unknown-key", self.at(key), "no such key", hint, key=True)

    def need(self, key: str, hint: str | None = None) -> None:
        """Report a missing key."""
        if self.lacks(key):
            self.report.add("missing-key", self.path, f"'{key}' is missing", hint, key=True)

    def wrong_type(self, key: str, wanted: str, hint: str | None = None) -> None:
        """Report a value of another type than ``wanted``."""
        self.report.add("bad-type", self.at(key), f"{wanted} is wanted here, not {told(self.values[key])}", hint)

    def text(self, key: str, default: str, choices: Sequence[str] = ()) -> str:
        """A text, one of ``choices`` where there are any."""
        if not self.has(key):
            return default
        value = self.values[key]
        if not isinstance(value, str):
            self.wrong_type(key, "text", quoted_hint(value, choices))
        elif not _encodable(value):
            self.report.add("bad-value", self.at(key), f"{shown(value)} has a lone surrogate, which is no text")
        elif choices and value not in choices:
            hint = did_you_mean(value, choices) or "one of: " + ", ".join(f'"{c}"' for c in choices)
            self.report.add("bad-value", self.at(key), f"{shown(value)} is not known", hint)
        else:
            return value
        return default

    def maybe_text(self, key: str) -> str | None:
        """A text that is not empty, None where the key is absent."""
        if not self.has(key):
            return None
        value = self.text(key, "-")
        if not value:
            self.report.add("bad-value", self.at(key), "the text is empty", f"leave '{key}' out to have none")
        return value

    def integer(self, key: str, default: int, least: int, most: int | None = None) -> int:
        """An integer of ``least`` to ``most``."""
        if not self.has(key):
            return default
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong_type(key, "an integer")
        elif value < least or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"{least} to {most}"
            self.report.add("bad-value", self.at(key), f"{shown(value)} is out of range", f"an integer of {limits}")
        else:
            return value
        return default

    def boolean(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.values.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong_type(key, "true or false")
        return default

    def texts(self, key: str, *, one: bool = False) -> tuple[tuple[KeyPath, str], ...]:
        """Texts of a list with their paths (or, with ``one``, one text); none empty, none twice."""
        value = self.values.get(key, [])
        if one and isinstance(value, str):
            value, paths = [value], [self.at(key)]
        elif isinstance(value, list):
            paths = [(*self.at(key), n) for n in range(len(value))]
        else:
            self.wrong_type(key, "text or a list of texts" if one else "a list of texts")
            return ()
        found: dict[str, KeyPath] = {}
        for path, item in zip(paths, value, strict=True):
            if not isinstance(item, str):
                self.report.add("bad-type", path, f"text is wanted here, not {told(item)}")
            elif not item or not _encodable(item):
                self.report.add("bad-value", path, "the text is empty" if not item else f"{shown(item)} is no text")
            elif item in found:
                self.report.add("conflict", path, f"{shown(item)} stands here twice", "keep one of the two")
            else:
                found[item] = path
        return tuple((path, item) for item, path in found.items())

    def ratio(self, key: str) -> Fraction | None:
        """An exact number, None where it is wrong."""
        value = self.values[key]
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            self.wrong_type(key, "a number")
            return None
        return _ratio(self.report, self.at(key), value)

    def table(self, key: str, hint: str | None = None) -> Table:
        """The table at ``key``; an empty one where it is absent or something else."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.wrong_type(key, "a table", hint)
            return Table(report=self.report, path=self.at(key), values={}, is_table=False)
        return Table(report=self.report, path=self.at(key), values=value)

    def exact(self, key: str) -> canon.Value:
        """Any value, with numbers as integers or ratios."""
        return _exact(self.report, self.at(key), self.values[key])


def told(value: Any) -> str:
    """A value with its type, for "text is wanted here, not …"."""
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        return shown(value)
    if isinstance(value, str):
        return f"the text {shown(value)}"
    if isinstance(value, int):
        return f"the integer {shown(value)}"
    if isinstance(value, Decimal):
        return f"the decimal {shown(value)}"
    return f"the date or time {shown(value)}"


def quoted_hint(value: Any, choices: Sequence[str]) -> str | None:
    """What to write instead of a value that is no text."""
    if choices:
        return "one of: " + ", ".join(f'"{c}"' for c in choices)
    return None if isinstance(value, list | dict) else f'write "{shown(value)}"'


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _ratio(report: Report, path: KeyPath, value: int | Decimal) -> Fraction | None:
    """``value`` exactly, None where it is reported: not a number, or longer than any use."""
    digits = len(value.as_tuple().digits) if isinstance(value, Decimal) else 0
    if digits > _DIGITS or (isinstance(value, int) and value.bit_length() > _BITS):
        report.add("bad-value", path, f"{shown(value)} is too long", f"at most {_DIGITS} digits")
        return None
    try:
        return canon.ratio(value)
    except ValueError as error:
        report.add("bad-value", path, shown(str(error))[1:-1], "write an ordinary decimal")
        return None


def _exact(report: Report, path: KeyPath, value: Any) -> canon.Value:
    if isinstance(value, dict):
        for key in value:
            if not _encodable(key):
                report.add("bad-value", path, f"the key {shown(key)} has a lone surrogate, which is no text")
        return {key: _exact(report, (*path, key), item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_exact(report, (*path, n), item) for n, item in enumerate(value))
    if isinstance(value, Decimal):
        return _ratio(report, path, value) or Fraction(0)
    if isinstance(value, int):
        return value if isinstance(value, bool) or _ratio(report, path, value) is not None else 0
    if value is None:
        report.add("bad-type", path, "null has no meaning here", "leave the key out")
    elif isinstance(value, datetime.date | datetime.time):
        report.add("bad-type", path, f"{told(value)} has no meaning here", f'write it as text: "{value}"')
    elif isinstance(value, str) and not _encodable(value):
        report.add("bad-value", path, f"{shown(value)} has a lone surrogate, which is no text")
    else:
        return value
    return 0
