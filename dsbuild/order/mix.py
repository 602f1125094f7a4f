"""Mixture: which source owns stream position t, and which of its examples, over stages and up to the stream's end.

Nothing is stored but the sources' numbers: any position is found in O(1). ``slots`` has the arithmetic of one stage;
here clocks restart at a stage's first position and the sources' examples go on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dsbuild.order.slots import MOST, Ints, Slots

_BLOCK = 1 << 16


class DryStage(ValueError):
    """A stage of a mixture has fewer examples than positions before the next stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Weights that hold from position ``first`` on.

    ``weights``: W_s for each source, integers from 0 (``weights.integer_weights``). ``phases``: the 64-bit seed of each
    source in this stage (``weights.phase_seed``).
    """

    first: int
    weights: tuple[int, ...]
    phases: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A stage in use: its ``first`` position, its ``slots``, and how many examples of each source came before it."""

    first: int
    slots: Slots
    carried: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The stream of K sources, as positions from 0.

    ``ids``: the sources' ids as bytes, all different; they break ties, so the order of the sources does not matter.
    ``lengths``: N_s > 0, examples of one epoch. ``caps``: the most examples of a source, None = no cap; empty = none.
    ``until``: "first" ends before a source that is not capped would start its second epoch; "all" ends when each has
    given all its examples once (or up to its cap), a source that later stages leave out counting only until then; a
    number E gives each source floor(E N_s) examples (or its cap); None does not end but by caps.

    ``length``: number of positions, None if endless. Raises ``ValueError`` where the numbers make no stream: an empty
    source, weights that ``weights`` refuses, more than 2**60 positions, or (``DryStage``) a stage that runs dry before
    the next one.
    """

    ids: tuple[bytes, ...]
    lengths: tuple[int, ...]
    stages: tuple[Stage, ...]
    caps: tuple[int | None, ...] = ()
    until: str | Fraction | int | None = "all"
    length: int | None = field(init=False)
    _runs: tuple[_Run, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self)
        limits = [_limit(self, source) for source in range(len(self.ids))]
        runs: list[_Run] = []
        length = None
        carried = np.zeros(len(self.ids), np.int64)
        for number, stage in enumerate(self.stages):
            left = [n if n is None else n - int(c) for n, c in zip(limits, carried, strict=True)]
            slots = Slots(stage.weights, stage.phases, left, self.ids)
            run = _Run(first=stage.first, slots=slots, carried=carried)
            runs.append(run)
            length = _end(self, number, run, limits)
            if number + 1 == len(self.stages):
                break
            following = self.stages[number + 1].first
            # where "first" would end at the very border, the next stage may put another source there
            if length is not None and (length < following or (length == following and self.until == "all")):
                break
            if slots.total is not None and stage.first + slots.total < following:
                seen = f"stage {number} has {slots.total:,} examples"
                raise DryStage(f"{seen}, all that its sources may give, but stage {number + 1} starts at {following:,}")
            carried = carried + slots.counts(following - stage.first)
        if length is not None and length > MOST:
            raise ValueError(
                "a stream of over 2**60 examples: a weight is too small, or a cap too large, for its source"
            )
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "_runs", tuple(runs))

    def locate(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """(source, k) of the positions [start, stop): the k-th example that the stream takes of the source, from 0.

        So example k is index k mod N_s of epoch k div N_s. Raises ``IndexError`` for positions past the end.
        """
        end = MOST if self.length is None else self.length
        if not 0 <= start <= stop <= end:
            raise IndexError(f"positions {start:,} to {stop:,} of {end:,}")
        sources, ordinals = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        for run, low, high in self._pieces(start, stop):
            found, slots = run.slots.locate(low - run.first, high - run.first)
            sources[low - start : high - start] = found
            np.add(slots, run.carried[found], out=ordinals[low - start : high - start])
        return sources, ordinals

    def counts(self, position: int) -> Ints:
        """How many examples of each source stand before ``position``. Raises ``IndexError`` past the end."""
        end = MOST if self.length is None else self.length
        if not 0 <= position <= end:
            raise IndexError(f"position {position:,} of {end:,}")
        run = next(run for run in reversed(self._runs) if run.first <= position)
        found: Ints = run.carried + run.slots.counts(position - run.first)
        return found

    def position(self, source: int, ordinal: int) -> int:
        """The position at which the stream takes example ``ordinal`` (from 0) of ``source``: undoes ``locate``.

        Raises ``IndexError`` where the stream ends before it, or does not reach it by 2**60.
        """
        if not (0 <= source < len(self.ids) and ordinal >= 0):
            raise IndexError(f"example {ordinal:,} of source {source} of {len(self.ids)}")
        end = MOST if self.length is None else self.length
        run = next(run for run in reversed(self._runs) if run.carried[source] <= ordinal)
        slot = ordinal - int(run.carried[source])
        found = end if slot >= run.slots.limit(source) else run.first + run.slots.rank(source, slot)
        if found >= end:
            raise IndexError(f"example {ordinal:,} of source {source}: the stream ends before it, at {end:,}")
        return found

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[_Run, int, int]]:
        """Pieces of [start, stop) inside one stage, and bounded, so that memory is."""
        for number, run in enumerate(self._runs):
            low = max(start, run.first)
            high = min(stop, self._runs[number + 1].first) if number + 1 < len(self._runs) else stop
            for at in range(low, high, _BLOCK):
                yield run, at, min(at + _BLOCK, high)


def _check(mixture: Mixture) -> None:
    count = len(mixture.ids)
    if not count or len(mixture.lengths) != count or len(mixture.caps) not in (0, count):
        raise ValueError(f"{count} ids, {len(mixture.lengths)} lengths, {len(mixture.caps)} caps")
    for source, length in enumerate(mixture.lengths):
        if not 0 < length <= MOST:
            raise ValueError(f"source {source} has {length:,} examples: must be from 1 to 2**60")
    firsts = [stage.first for stage in mixture.stages]
    if firsts[:1] != [0] or firsts != sorted(set(firsts)) or firsts[-1] > MOST:
        raise ValueError(f"stages start at {firsts}: must start at 0 and ascend")
    if mixture.until not in ("first", "all", None) and (isinstance(mixture.until, str) or mixture.until <= 0):
        raise ValueError(f"until {mixture.until!r}: must be 'first', 'all' or a number of epochs above 0")


def _limit(mixture: Mixture, source: int) -> int | None:
    """L_s: the most examples that the stream takes of a source; None = endless."""
    cap = mixture.caps[source] if mixture.caps else None
    if mixture.until is None or isinstance(mixture.until, str):
        return cap
    whole = math.floor(mixture.until * mixture.lengths[source])
    return whole if cap is None else min(cap, whole)


def _end(mixture: Mixture, number: int, run: _Run, limits: list[int | None]) -> int | None:
    """The stream's length if it ends in stage ``number`` were that the last one, else None."""
    if mixture.until == "first":
        end = _end_first(mixture, number, run, limits)
    elif mixture.until == "all":
        return _end_all(mixture, number, run, limits)
    else:
        end = None
    last = number + 1 == len(mixture.stages)
    if end is None and last and run.slots.total is not None:
        return run.first + run.slots.total
    return end


def _end_first(mixture: Mixture, number: int, run: _Run, limits: list[int | None]) -> int | None:
    """Before the least slot of an example N_s, among sources that may give more than N_s."""
    again = [
        (source, length - int(run.carried[source]))
        for source, (limit, length) in enumerate(zip(limits, mixture.lengths, strict=True))
        if mixture.stages[number].weights[source] and (limit is None or limit > length)
    ]
    if not again:
        return None
    source, slot = min(_timed(mixture, run, again))[2:]
    return run.first + run.slots.rank(source, slot)


def _end_all(mixture: Mixture, number: int, run: _Run, limits: list[int | None]) -> int | None:
    """After the greatest slot of an example min(L_s, N_s) - 1, among sources that this or a later stage weighs."""
    lasts: list[tuple[int, int]] = []
    for source, (limit, length) in enumerate(zip(limits, mixture.lengths, strict=True)):
        wanted = (length if limit is None else min(limit, length)) - int(run.carried[source])
        if wanted <= 0:
            continue
        if mixture.stages[number].weights[source]:
            lasts.append((source, wanted - 1))
        elif any(stage.weights[source] for stage in mixture.stages[number + 1 :]):
            return None
    if not lasts:
        return run.first
    source, slot = max(_timed(mixture, run, lasts))[2:]
    return run.first + run.slots.rank(source, slot) + 1


def _timed(mixture: Mixture, run: _Run, slots: list[tuple[int, int]]) -> list[tuple[Fraction, bytes, int, int]]:
    """(time, id, source, slot) of slots, which so compare as they stand in the stream."""
    times = run.slots.times([source for source, _ in slots], [slot for _, slot in slots])
    return [(time, mixture.ids[s], s, slot) for time, (s, slot) in zip(times, slots, strict=True)]
