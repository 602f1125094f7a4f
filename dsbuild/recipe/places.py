"""Places: where each key and value of an accepted TOML or JSON text stands.

The parsers give no positions, so the text is walked a second time. The walk decides nothing: it only runs on text that
the parser accepted, and where it loses its way it stops and leaves the rest without places (a diagnostic then names the
nearest parent). Nesting beyond ``MAX_DEPTH`` raises ``TooDeep``.
"""

from __future__ import annotations

import contextlib
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field

import tomli

from dsbuild.errors import Where
from dsbuild.recipe.types import KeyPath

MAX_DEPTH = 32

_LONGEST = 1000
_CONTROL = dict.fromkeys((*range(9), *range(10, 32), *range(127, 160)), "\ufffd")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_COLON = re.compile(r"[ \t\r\n]*:[ \t\r\n]*")
_SCALAR = re.compile(r"[^,\]}#\n]+")
_STRING = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})|"(?:\\.|[^"\\\n])*"|'[^'\n]*\'''', re.DOTALL
)
_JSON_STRING = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)


class TooDeep(Exception):
    """Nesting beyond ``MAX_DEPTH``; its argument is the place."""

    def __init__(self, where: Where) -> None:
        super().__init__(where)
        self.where = where


class _LostError(Exception):
    """The walk met what it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """``values`` and ``keys`` by key path (items of lists have no key); ``twice``: keys that a JSON object repeats."""

    values: dict[KeyPath, Where] = field(default_factory=dict)
    keys: dict[KeyPath, Where] = field(default_factory=dict)
    twice: list[tuple[KeyPath, Where]] = field(default_factory=list)


class Lines:
    """The lines of a text, to make a ``Where`` of character positions.

    Control characters are shown as U+FFFD, lines of more than a thousand characters not at all.
    """

    def __init__(self, text: str, path: str) -> None:
        self._text, self._path = text, path
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._shown: dict[int, str] = {}

    def where(self, start: int, end: int) -> Where:
        """The place of characters ``start`` to ``end``, marked at most to the end of the first line."""
        number = bisect_right(self._starts, start)
        first = self._starts[number - 1]
        if number not in self._shown:
            last = self._starts[number] - 1 if number < len(self._starts) else len(self._text)
            self._shown[number] = self._text[first:last].rstrip("\r").translate(_CONTROL)
        shown = self._shown[number]
        width = max(min(end - start, len(shown) - (start - first)), 1)
        text = shown if len(shown) <= _LONGEST else None
        return Where(path=self._path, line=number, column=start - first + 1, text=text, width=width)

    def at(self, line: int, column: int) -> Where:
        """The place of a 1-based line and column."""
        start = self._starts[min(line, len(self._starts)) - 1] + column - 1
        return self.where(start, start + 1)


def toml_places(text: str, path: str) -> Places:
    """Places in TOML ``text`` with line feeds as line ends. Raises ``TooDeep``."""
    walk = _Walk(text, Lines(text, path), is_json=False)
    with contextlib.suppress(_LostError):
        walk.statements()
    return walk.places


def json_places(text: str, path: str) -> Places:
    """Places in JSON ``text``. Raises ``TooDeep``."""
    walk = _Walk(text, Lines(text, path), is_json=True)
    with contextlib.suppress(_LostError):
        walk.gap()
        walk.value(())
    return walk.places


class _Walk:
    def __init__(self, text: str, lines: Lines, *, is_json: bool) -> None:
        self.text, self.lines, self.is_json, self.at = text, lines, is_json, 0
        self.places = Places()
        self.tables: dict[KeyPath, int] = {}
        self.separator, self.string = (_COLON, _JSON_STRING) if is_json else (_EQUALS, _STRING)

    def statements(self) -> None:
        """A whole TOML document."""
        table: KeyPath = ()
        while True:
            self.gap()
            if self.at >= len(self.text):
                return
            if self.text.startswith("[[", self.at):
                self.at += 2
                table = self.header(many=True)
            elif self.text[self.at] == "[":
                self.at += 1
                table = self.header(many=False)
            else:
                self.pair(table)

    def gap(self) -> None:
        """Blanks, line ends and comments."""
        found = _GAP.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def take(self, pattern: re.Pattern[str]) -> tuple[int, str]:
        """(position, text) of what ``pattern`` matches here."""
        found = pattern.match(self.text, self.at)
        if found is None or not found.group():
            raise _LostError
        self.at = found.end()
        return found.start(), found.group()

    def close(self, mark: str) -> None:
        """Passes ``mark`` after blanks."""
        self.gap()
        if not self.text.startswith(mark, self.at):
            raise _LostError
        self.at += len(mark)

    def key(self) -> list[tuple[str, Where]]:
        """A dotted key: its parts with their places."""
        parts = []
        while True:
            start, token = self.take(self.string if self.is_json else _KEY)
            parts.append((self.name(token), self.lines.where(start, self.at)))
            dot = None if self.is_json else _DOT.match(self.text, self.at)
            if dot is None:
                return parts
            self.at = dot.end()

    def name(self, token: str) -> str:
        """What a key's token says."""
        try:
            if self.is_json:
                return str(json.loads(token))
            return str(tomli.loads(f"k = {token}")["k"]) if token[0] in "\"'" else token
        except ValueError:
            raise _LostError from None

    def header(self, *, many: bool) -> KeyPath:
        """``[a.b]`` or ``[[a.b]]``, its opening passed: the path of the table that it opens."""
        self.gap()
        parts = self.key()
        self.close("]]" if many else "]")
        path: KeyPath = ()
        for number, (name, where) in enumerate(parts):
            path = self.enter(path, name, where)
            last = number == len(parts) - 1
            if many and last:
                self.tables[path] = self.tables.get(path, 0) + 1
            if path in self.tables:
                path = (*path, self.tables[path] - 1)
                self.places.values.setdefault(path, where)
        return path

    def enter(self, path: KeyPath, name: str, where: Where) -> KeyPath:
        """The path of key ``name``, whose places are remembered unless it was met before."""
        path = (*path, name)
        if len(path) > MAX_DEPTH:
            raise TooDeep(where)
        self.places.keys.setdefault(path, where)
        self.places.values.setdefault(path, where)
        return path

    def pair(self, table: KeyPath) -> None:
        """``key = value``, or ``"key": value``."""
        path = table
        for name, where in self.key():
            if self.is_json and (*path, name) in self.places.keys:
                self.places.twice.append(((*path, name), where))
            path = self.enter(path, name, where)
        self.take(self.separator)
        self.value(path)

    def value(self, path: KeyPath) -> None:
        """Any value; its place is remembered under ``path``."""
        start, first = self.at, self.text[self.at : self.at + 1]
        if len(path) > MAX_DEPTH:
            raise TooDeep(self.lines.where(start, start + 1))
        if first == "[":
            self.items("]", path)
        elif first == "{":
            self.items("}", path)
        elif first and first in "\"'":
            self.take(self.string)
        else:
            self.take(_SCALAR)
        end = start + len(self.text[start : self.at].rstrip())
        self.places.values[path] = self.lines.where(start, end)

    def items(self, mark: str, path: KeyPath) -> None:
        """The inside of a list or an inline table, up to ``mark``."""
        self.at += 1
        number = 0
        while True:
            self.gap()
            if self.text.startswith(mark, self.at):
                self.at += 1
                return
            if mark == "]":
                self.value((*path, number))
                number += 1
            else:
                self.pair(path)
            self.gap()
            if self.text.startswith(",", self.at):
                self.at += 1
            elif not self.text.startswith(mark, self.at):
                raise _LostError
