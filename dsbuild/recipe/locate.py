"""Locate: from the patterns of a source to its files, in the order that decides the order of records."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dsbuild.errors import Diagnostic, RecipeError, Where
from dsbuild.recipe.pattern import Expansion, Problem, expand
from dsbuild.recipe.table import shown
from dsbuild.recipe.types import Recipe, SourceSpec

MOST = 20
"""Problems of one pattern that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file of a source: the ``pattern`` that named it, its ``name`` as written (POSIX), its absolute ``path``."""

    pattern: str
    name: str
    path: str
    stat: os.stat_result

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stat.st_size

    @property
    def signature(self) -> tuple[int, int, int, int]:
        """(size, mtime_ns, ctime_ns, inode): equal as long as nobody wrote to the file."""
        return self.stat.st_size, self.stat.st_mtime_ns, self.stat.st_ctime_ns, self.stat.st_ino


def locate(recipe: Recipe, source: SourceSpec) -> list[Found]:
    """The files of ``source``: patterns as listed, inside a pattern by code point of the name, each file once.

    Raises ``RecipeError`` with all of: ``no-match``, ``no-such-file``, ``not-a-file``, ``unreadable``, ``bad-name``.
    """
    found, problems = search(recipe, source)
    if problems:
        raise RecipeError(diagnostics=problems)
    return found


def search(recipe: Recipe, source: SourceSpec) -> tuple[list[Found], list[Diagnostic]]:
    """As ``locate``, but problems are returned."""
    directory = os.path.abspath(recipe.directory)  # noqa: PTH100 - lexical: links in it stay as written
    found: list[Found] = []
    problems: list[Diagnostic] = []
    taken: set[str] = set()
    for number, pattern in enumerate(source.files):
        one = expand(pattern, directory)
        problems += _diagnostics(one, recipe, source, number)
        matches = one.matches
        if len(source.files) > 1:
            matches = [m for m in matches if (at := os.path.normpath(m[1])) not in taken and not taken.add(at)]  # type: ignore[func-returns-value]
        found += [Found(pattern=pattern, name=name, path=path, stat=status) for name, path, status in matches]
    return found, problems


def _diagnostics(one: Expansion, recipe: Recipe, source: SourceSpec, number: int) -> list[Diagnostic]:
    where = place_of_file(recipe, source, number)
    listed = [_diagnostic(problem, where, f"source.{source.name}.files") for problem in one.problems[:MOST]]
    if len(one.problems) > MOST:
        kind = one.problems[MOST].kind
        listed.append(Diagnostic(message=f"and {len(one.problems) - MOST} more", kind=kind, where=where))
    return listed


def _diagnostic(problem: Problem, where: Where, key: str) -> Diagnostic:
    message = f"{key}: {shown(problem.name)[1:-1]}: {problem.message}"
    return Diagnostic(message=message, kind=problem.kind, where=where, hint=problem.hint)


def place_of_file(recipe: Recipe, source: SourceSpec, number: int) -> Where:
    """The place of pattern ``number`` of a source: an item of the list, or the one text."""
    return recipe.where("source", source.name, "files", number)
