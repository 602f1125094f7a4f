"""Output: data to stdout, words to people on stderr, ``--json`` for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """``--json``: one JSON document on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def store_option(command: F) -> F:
    """``--store``: the store to use."""
    return click.option(
        "--store",
        "store",
        metavar="DIR",
        help="The store; else $DSBUILD_STORE, else the nearest 'store/' above the recipe, else the user's own.",
    )(command)


def update_option(command: F) -> F:
    """``--update [NAME]``: accept changes since the lock, of one source or of all."""
    return click.option(
        "--update",
        "update",
        is_flag=False,
        flag_value="",
        multiple=True,
        metavar="[NAME]",
        help="Accept what changed since the lock: of the source NAME (or 'tokenizer'), or everything.",
    )(command)


def update_names(update: tuple[str, ...]) -> tuple[str, ...] | None:
    """None = accept nothing, empty = everything, else these names."""
    if not update:
        return None
    return () if "" in update else update


def percent(text: str) -> Fraction:
    """ "5%" or "0.05" as a ratio in (0, 1]. Raises ``click.BadParameter``."""
    try:
        found = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{text!r} is no share: give 5% or 0.05") from None
    if not 0 < found <= 1:
        meant = f"; did you mean {text}%?" if not text.endswith("%") and found <= 100 else ""
        raise click.BadParameter(f"{text} is not above 0% and at most 100%{meant}")
    return found


def recipe_argument(command: F) -> F:
    """The recipe's path."""
    return click.argument("recipe", type=click.Path(path_type=Path))(command)


def print_json(value: Any) -> None:
    """One JSON document, keys in the order given."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(rows: Iterable[Sequence[object]], head: Sequence[str]) -> None:
    """Columns of text, as wide as needed; plain, so that it can be cut and sorted."""
    lines = [tuple(head), *(tuple(str(c) for c in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        click.echo("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())


def say(text: str) -> None:
    """A line for people."""
    click.echo(text, err=True)


def count(number: int) -> str:
    """A number with thin groups: 12,345."""
    return f"{number:,}"


def size(number: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def report_error(error: Exception, as_json: bool) -> int:
    """Show ``error`` to people (and as JSON on stdout if asked) and give its exit code."""
    import traceback

    from dsbuild.errors import DsbuildError, StorageError

    known = error
    if isinstance(error, OSError) and not isinstance(error, DsbuildError):
        known = StorageError(f"{error.filename or 'the file system'}: {error.strerror or error}", kind="io-error")
    if not isinstance(known, DsbuildError):
        say("".join(traceback.format_exception(error)))
        known = DsbuildError(
            f"{type(error).__name__}: {error}", kind="internal", hint="this is a bug: please report it"
        )
    elif known.exit_code == DsbuildError.exit_code:
        say("".join(traceback.format_exception(error)))
    say(known.render())
    if as_json:
        print_json({"errors": [d.as_json() for d in known.diagnostics], "exit_code": known.exit_code})
        sys.stdout.flush()
    return known.exit_code
