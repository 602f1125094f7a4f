"""Rates: batches of epoch after epoch, timed in stretches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

SETTLE = 8
"""Batches that are not timed after each pause: what was made ahead during it."""


class Endless:
    """Batches of an iterator made anew at each epoch's end; what that costs is outside of the timing.

    ``tokens``: of one batch.
    """

    def __init__(self, make: Callable[[], Iterator[Any]], tokens: int) -> None:
        self._make, self._tokens = make, tokens
        self._batches = make()

    def rate(self, seconds: float) -> float:
        """Millions of tokens in a second."""
        taken, count = 0.0, 0
        while taken < seconds:
            self._settle()
            started = last = time.perf_counter()
            for _ in self._batches:
                count += 1
                last = time.perf_counter()
                if last - started > seconds - taken:
                    break
            taken += last - started
        return count * self._tokens / taken / 1e6

    def _settle(self) -> None:
        for _ in range(SETTLE):
            if next(self._batches, None) is None:
                self._batches = self._make()
                next(self._batches)


class Rated(Protocol):
    """What has a rate, in M tokens/s."""

    def rate(self, seconds: float) -> float: ...


def in_turn(things: Mapping[str, Rated], rounds: int, seconds: float) -> dict[str, float]:
    """Median rate of each thing, in M tokens/s, taken in turn ``rounds`` times."""
    found: dict[str, list[float]] = {name: [] for name in things}
    for _ in range(rounds):
        for name, thing in things.items():
            found[name].append(thing.rate(seconds))
    return {name: statistics.median(rates) for name, rates in found.items()}
