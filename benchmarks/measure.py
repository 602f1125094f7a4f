"""Measure: run two or more things alternately in one process, print medians and the ratio to the first, the floor."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Timed = Callable[[], object]


def seconds(call: Timed) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def compare(things: Mapping[str, Timed], rounds: int = 5, unit: float = 0, unit_name: str = "") -> dict[str, float]:
    """Median seconds of each thing, run in turn ``rounds`` times; prints a table with ratios to the first.

    ``unit``: an amount of work that each does, printed as a rate.
    """
    times: dict[str, list[float]] = {name: [] for name in things}
    for _ in range(rounds):
        for name, call in things.items():
            times[name].append(seconds(call))
    medians = {name: statistics.median(values) for name, values in times.items()}
    floor = next(iter(medians.values()))
    for name, median in medians.items():
        rate = f"  {unit / median:10.2f} {unit_name}/s" if unit else ""
        print(
            f"{name:44} {median:9.4f} s{rate}  x{median / floor:7.3f}  (of {rounds}: {min(times[name]):.4f}-{max(times[name]):.4f})"
        )
    return medians


def command(*arguments: str, **options: object) -> Timed:
    """A command run to its end, output dropped; a failure is an error."""
    return lambda: subprocess.run(arguments, check=True, capture_output=True, **options)  # type: ignore[call-overload]


def dsbuild(*arguments: str | Path) -> Timed:
    """dsbuild as users start it."""
    script = Path(sys.executable).with_name("dsbuild")
    return command(str(script), *map(str, arguments))


def claim(what: str, value: float, limit: float, *, at_least: bool = False) -> bool:
    """Print whether ``value`` keeps its limit."""
    held = value >= limit if at_least else value <= limit
    print(f"{'holds' if held else 'BROKEN'}: {what}: {value:.3f}, {'at least' if at_least else 'at most'} {limit}")
    return held
