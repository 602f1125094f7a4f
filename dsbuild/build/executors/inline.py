"""Inline: tasks run in the calling process, one by one; for tests, debuggers and tiny builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dsbuild.errors import DsbuildError
from dsbuild.interfaces import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineExecutor:
    """Runs each task where it is called; only errors meant for users are caught."""

    def run(self, tasks: Iterable[Any], work: Callable[[Any], Any]) -> Iterator[Done]:
        """Each task once, in order."""
        for task in tasks:
            try:
                yield Done(task=task, value=work(task))
            except DsbuildError as error:
                yield Done(task=task, error=error)
