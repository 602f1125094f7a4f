"""Tree: the plain values of a recipe file, TOML or JSON, and their places. Nothing is evaluated, numbers stay exact.

Safe on hostile files: at most ``MAX_BYTES`` are read, only of a regular file, and nesting is bounded.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import tomli

from dsbuild.errors import Diagnostic, DsbuildError, NotFoundError, RecipeError, Where
from dsbuild.recipe.places import MAX_DEPTH, Lines, Places, TooDeep, json_places, toml_places
from dsbuild.recipe.suggest import did_you_mean

MAX_BYTES = 1 << 20

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE = re.compile(r"Cannot (overwrite a value|declare .* twice|mutate immutable namespace .*)|Duplicate .*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """``values``: tables as dicts, lists, text, int, bool, Decimal, dates; None only from JSON."""

    path: Path
    values: Mapping[str, Any]
    places: Places


def read_tree(path: Path) -> Tree:
    """The tree of the recipe at ``path`` (JSON by the suffix ``.json``, else TOML).

    Raises ``NotFoundError`` (no-such-file) and ``RecipeError`` (not-a-file, unreadable, bad-encoding, bad-toml,
    bad-value for a file that is too large or nested too deeply).
    """
    text = _decode(_read(path), str(path)).replace("\r\n", "\n")
    is_json = path.suffix == ".json"
    values = _parse_json(text, str(path)) if is_json else _parse_toml(text, str(path))
    try:
        places = (json_places if is_json else toml_places)(text, str(path))
    except TooDeep as error:
        raise RecipeError(
            f"{path}: nested deeper than {MAX_DEPTH} levels", kind="bad-value", where=error.where
        ) from None
    if places.twice:
        raise RecipeError(diagnostics=[_twice(key, where) for key, where in places.twice])
    return Tree(path=path, values=values, places=places)


def _read(path: Path) -> bytes:
    at = Where(path=str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise _cannot_open(path, error) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise RecipeError(f"{path}: {what}, not a recipe", kind="not-a-file", where=at, hint="name the .toml file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}", kind="unreadable", where=at) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        hint = "who needs a loop writes a program that writes TOML; many files are one pattern"
        raise RecipeError(f"{path}: a recipe has at most {MAX_BYTES} bytes", kind="bad-value", where=at, hint=hint)
    return data


def _cannot_open(path: Path, error: OSError | ValueError) -> DsbuildError:
    at = Where(path=str(path))
    if isinstance(error, ValueError):
        return NotFoundError(f"{str(path)!r}: no file can have this name", kind="no-such-file")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return NotFoundError(f"{path}: no such file", kind="no-such-file", where=at, hint=_near(path))
    if error.errno == errno.ELOOP:
        return NotFoundError(f"{path}: a symbolic link that leads nowhere", kind="no-such-file", where=at)
    return RecipeError(f"{path}: {error.strerror}", kind="unreadable", where=at, hint="check the file's permissions")


def _near(path: Path) -> str | None:
    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix in (".toml", ".json")]
    except OSError:
        return "'dsbuild init' writes a recipe to start from"
    return did_you_mean(path.name, names) or "'dsbuild init' writes a recipe to start from"


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RecipeError(
            f"{path}: byte {error.start} (0x{data[error.start]:02x}) is not UTF-8",
            kind="bad-encoding",
            where=Where(path=path, line=line),
            hint="save the recipe as UTF-8",
        ) from None


def exact(text: str) -> Decimal:
    """A decimal as written; NaN where it has no exact value here (it is refused where it is used)."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal("NaN")


def _parse_toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomli.loads(text, parse_float=exact)
    except tomli.TOMLDecodeError as error:
        raise RecipeError(diagnostics=[_toml_diagnostic(str(error), text, path)]) from None
    except RecursionError:
        raise RecipeError(
            f"{path}: nested deeper than {MAX_DEPTH} levels", kind="bad-value", where=Where(path=path)
        ) from None
    except ValueError as error:
        raise RecipeError(f"{path}: {_lower(str(error))}", kind="bad-toml", where=Where(path=path)) from None


def _toml_diagnostic(said: str, text: str, path: str) -> Diagnostic:
    lines = Lines(text, path)
    found = _POSITION.search(said)
    message = said[: found.start()] if found else said
    if found and found.group(1):
        where = lines.at(int(found.group(1)), int(found.group(2)))
    else:
        end = len(text.rstrip())
        where = lines.where(max(end - 1, 0), end)
    hint = None
    if message.startswith("Illegal character '\\n'"):
        message, hint = "a text that is not closed on its line", 'long texts stand between """ and """'
    if _TWICE.match(message):
        message, hint = "a key or table that stands here twice", "keep one of the two"
        where = _mark_statement(where)
    return Diagnostic(message=f"{path}: not TOML: {_lower(message)}", kind="bad-toml", where=where, hint=hint)


def _mark_statement(where: Where) -> Where:
    """The key or header that starts the line: the parser points behind it."""
    text = where.text or ""
    found = re.match(r"\s*(\[[^\]]*\]+|[^=\s]+)", text)
    if found is None:
        return where
    return Where(
        path=where.path, line=where.line, column=found.start(1) + 1, text=text, width=found.end(1) - found.start(1)
    )


def _parse_json(text: str, path: str) -> dict[str, Any]:
    try:
        values = json.loads(text, parse_float=exact, parse_constant=exact)
    except json.JSONDecodeError as error:
        where = Lines(text, path).at(error.lineno, error.colno)
        raise RecipeError(f"{path}: not JSON: {_lower(error.msg)}", kind="bad-toml", where=where) from None
    except RecursionError:
        raise RecipeError(
            f"{path}: nested deeper than {MAX_DEPTH} levels", kind="bad-value", where=Where(path=path)
        ) from None
    except ValueError as error:
        raise RecipeError(f"{path}: {_lower(str(error))}", kind="bad-toml", where=Where(path=path)) from None
    if not isinstance(values, dict):
        raise RecipeError(f"{path}: a recipe is a JSON object", kind="bad-type", where=Where(path=path))
    return values


def _twice(key: tuple[str | int, ...], where: Where) -> Diagnostic:
    name = str(key[-1]).encode("utf-8", "backslashreplace").decode()
    message = f"{where.path}: the key '{name}' stands here twice"
    return Diagnostic(message=message, kind="bad-toml", where=where, hint="keep one of the two")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
