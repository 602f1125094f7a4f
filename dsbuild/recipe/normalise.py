"""Normalised Python: the tokens of a module without comments, docstrings, layout and line ends.

Safe as an identity and as what is run, because it keeps every token that Python's grammar sees: one blank between
tokens, one line a logical line, four blanks a level. String literals stay as they are written, byte for byte (an
f-string counts as one token, as it was before Python 3.12), so the text is the same on every Python. Only the standard
library is imported, so that other Pythons can be asked for their answer.
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

Position = tuple[int, int]

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
_STARTS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
_ENDS = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}
_WORD = re.compile(r"\w+")


class SourceError(ValueError):
    """Text that is not Python of this version: ``line`` (1-based) and the reason."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(line, message)
        self.line, self.message = line, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """Normalised ``text``; ``lines``: for each of its lines the line in the user's file; ``tree`` of that file."""

    text: str
    lines: tuple[int, ...]
    tree: ast.Module


def decode(data: bytes) -> str:
    """The text of a Python file, which must be UTF-8, with every line end as a line feed. Raises ``SourceError``."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(data[: error.start].count(b"\n") + 1, f"byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise SourceError(text[: text.index("\0")].count("\n") + 1, "a NUL byte")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n")[:2]):
        cookie = _COOKIE.match(line)
        if cookie and cookie[1].lower().replace("_", "-") not in ("utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii"):
            raise SourceError(number + 1, f"declares the encoding {cookie[1]}; only UTF-8 is read")
    return text if text.endswith("\n") or not text else text + "\n"


def normalise(text: str) -> Normal:
    """The normalised form of a module's decoded ``text``. Raises ``SourceError``."""
    tree = parse(text)
    cuts = dict(_docstrings(tree, text))
    writer = _Writer()
    try:
        tokens = list(_tokens(text))
    except (tokenize.TokenError, SyntaxError) as error:
        raise SourceError(1, str(error)) from None
    at = 0
    while at < len(tokens):
        token = tokens[at]
        cut = cuts.get(token.start) if token.kind not in (tokenize.INDENT, tokenize.DEDENT) else None
        if cut is None:
            writer.add(token)
            at += 1
            continue
        while at < len(tokens) and tokens[at].start < cut.stop:
            at += 1
        if cut.alone:
            writer.add(_Token(tokenize.NAME, "pass", token.start))
        at += tokens[at].text == ";"
        at += tokens[at].kind == tokenize.NEWLINE and not writer.line
    return Normal(text="".join(writer.out), lines=tuple(writer.lines), tree=tree)


def parse(text: str) -> ast.Module:
    """The syntax tree of ``text``. Raises ``SourceError``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise SourceError(error.lineno or 1, error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(1, f"too deeply nested ({type(error).__name__})") from None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: int
    text: str
    start: Position


@dataclass(frozen=True, slots=True)
class _Cut:
    """A docstring statement that ends at ``stop``; ``alone``: its block has nothing else and needs a ``pass``."""

    stop: Position
    alone: bool


class _Writer:
    """Puts tokens on logical lines."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.lines: list[int] = []
        self.line: list[str] = []
        self.depth = 0
        self.first = 1

    def add(self, token: _Token) -> None:
        if token.kind == tokenize.INDENT:
            self.depth += 1
        elif token.kind == tokenize.DEDENT:
            self.depth -= 1
        elif token.kind == tokenize.NEWLINE:
            self._end()
        else:
            if not self.line:
                self.first = token.start[0]
            self.line.append(token.text)

    def _end(self) -> None:
        text = "    " * self.depth + " ".join(self.line) + "\n"
        self.line = []
        self.out.append(text)
        self.lines.extend(range(self.first, self.first + text.count("\n")))


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens that the grammar sees, each f-string as one, the same on every Python."""
    source = text.split("\n")
    depth, start = 0, (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _STARTS:
            depth += 1
            start = token.start if depth == 1 else start
        elif token.type in _ENDS:
            depth -= 1
            if depth == 0:
                yield _Token(tokenize.STRING, _span(source, start, token.end), start)
        elif depth == 0 and token.type not in _SKIPPED:
            if token.type == tokenize.ERRORTOKEN or (token.type == tokenize.NAME and not _WORD.fullmatch(token.string)):
                raise SourceError(token.start[0], f"{token.string!r} is no character of a name")
            yield _Token(token.type, token.string, token.start)


def _span(source: list[str], start: Position, stop: Position) -> str:
    lines = source[start[0] - 1 : stop[0]]
    lines[-1] = lines[-1][: stop[1]]
    lines[0] = lines[0][start[1] :]
    return "\n".join(lines)


def _docstrings(tree: ast.Module, text: str) -> Iterator[tuple[Position, _Cut]]:
    """The leading string statements of modules, classes and functions, by the position of their first token."""
    source = text.split("\n")

    def place(line: int, column: int) -> Position:
        return line, len(source[line - 1].encode()[:column].decode())

    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        found: list[ast.Expr] = []
        for statement in node.body:
            if not isinstance(statement, ast.Expr) or not _is_text(statement.value):
                break
            found.append(statement)
        for statement in found:
            only = len(found) == len(node.body) and statement is found[-1] and not isinstance(node, ast.Module)
            stop = place(statement.end_lineno or 0, statement.end_col_offset or 0)
            yield place(statement.lineno, statement.col_offset), _Cut(stop=stop, alone=only)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
