"""The suite of the Executor door, and work for it that can be sent to other processes."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsbuild.errors import RecipeError
from dsbuild.interfaces import Executor


@dataclass(frozen=True, slots=True)
class Double:
    """Work that doubles a number."""

    def __call__(self, task: int) -> int:
        """Twice ``task``."""
        return 2 * task


@dataclass(frozen=True, slots=True)
class Fails:
    """Work that raises: an error for users, or (``plain``) one of Python's."""

    plain: bool = False

    def __call__(self, task: Any) -> Any:
        """Raises."""
        if self.plain:
            return 1 // 0
        raise RecipeError(f"task {task}: refused", kind="bad-value")


@dataclass(frozen=True, slots=True)
class Dies:
    """Work whose process is killed: once a task (``directory`` remembers), or ``always``."""

    directory: str
    always: bool = False

    def __call__(self, task: Any) -> Any:
        """Kills the process, or gives ``task`` back."""
        mark = Path(self.directory) / f"died-{task}"
        if self.always or not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task


def check_executor(executor: Executor) -> None:
    """Asserts what every executor must do: each task once or its error, whatever the order; no task, no result."""
    assert list(executor.run([], Double())) == []
    done = list(executor.run([3, 1, 2], Double()))
    assert sorted((d.task, d.value) for d in done) == [(1, 2), (2, 4), (3, 6)]
    assert all(d.error is None for d in done)
    failed = list(executor.run([1, 2], Fails()))
    assert sorted(d.task for d in failed) == [1, 2]
    assert all(isinstance(d.error, RecipeError) for d in failed)
