"""Progress: parts, rates and the time left while a build runs; nothing when stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dsbuild.build import Observer
from dsbuild.cli.output import say, size

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar(Observer):
    """A rich progress bar on stderr; use it as a context manager."""

    def __init__(self) -> None:
        self._rich: Progress | None = None
        self._task: Any = None
        self._started = time.monotonic()
        self._bytes = 0
        self._said = self._started

    def __enter__(self) -> Bar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
            )
            self._rich = Progress(*columns, console=Console(stderr=True), transient=True)
            self._rich.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._rich is not None:
            self._rich.stop()

    def planned(self, parts: int, size: int) -> None:
        """Makes the bar longer."""
        if self._rich is None:
            return
        if self._task is None:
            self._task = self._rich.add_task("parts", total=0, rate="")
        total = (self._rich.tasks[0].total or 0) + parts
        self._rich.update(self._task, total=total)

    def done(self, task: Any, result: Any) -> None:
        """Moves it on."""
        self._bytes += getattr(task, "bytes", 0)
        now = time.monotonic()
        rate = f"{size(self._bytes / max(now - self._started, 1e-3))}/s"
        if self._rich is not None:
            self._rich.update(self._task, advance=1, rate=rate)
        elif now - self._said > 60:  # a log file wants to know that the build lives, not more
            self._said = now
            say(f"{getattr(task, 'label', 'files')}: done; {size(self._bytes)} so far, {rate}")
