"""Slots: the stream of one stage of a mixture: which source owns position t, exactly, in O(1) of t.

Slot j of source s has the virtual time (j 2**64 + p_j) / W_s, where p_j is output j of SplitMix64 under the source's
phase seed; the stream is the slots in order of time, ties by source id. A source ends after its limit of slots.

Why it is exact: the slots before a whole time x are counted in uint64 without rounding; times are compared by their
whole part, and where these are equal as exact ratios. A guess only says where to look, and widens until it encloses.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.scramble import Words, splitmix64
from dsbuild.order.weights import check_weights

MOST = 1 << 60
"""Positions and limits are at most this."""

Ints = NDArray[np.int64]
"""int64 arrays."""

_ENDLESS = 1 << 62
_WORD = (1 << 64) - 1
_LOW, _DIGIT = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF)
_U16, _U32 = np.uint64(16), np.uint64(32)


class Slots:
    """The slots of K sources in order of time. Immutable and safe to share between threads.

    ``weights``: W_s, integers from 0 (a source that takes no part). ``phases``: 64-bit seeds. ``limits``: numbers of
    slots, None = endless. ``ids``: bytes that break ties, all different. Raises ``ValueError`` where these are not so.
    """

    __slots__ = (
        "_guesses",
        "_high",
        "_ids",
        "_limits",
        "_low",
        "_narrow",
        "_phases",
        "_reach",
        "_sole",
        "_weights",
        "total",
    )

    def __init__(
        self, weights: Sequence[int], phases: Sequence[int], limits: Sequence[int | None], ids: Sequence[bytes]
    ) -> None:
        check_weights(weights)
        if not len(weights) == len(phases) == len(limits) == len(ids):
            raise ValueError(f"{len(weights)} weights, {len(phases)} phases, {len(limits)} limits, {len(ids)} ids")
        if len(set(ids)) != len(ids):
            raise ValueError("two sources with the same id: merge their weights")
        if any(limit is not None and not 0 <= limit <= MOST for limit in limits):
            raise ValueError("a limit must be from 0 to 2**60")
        ends = [0 if w == 0 else _ENDLESS if n is None else n for w, n in zip(weights, limits, strict=True)]
        self.total: int | None = sum(ends) if max(ends) < _ENDLESS else None
        """Number of positions, None if endless."""
        self._ids = tuple(ids)
        self._weights = np.array([max(weight, 1) for weight in weights], np.uint64)
        self._high, self._low = self._weights >> _U32, self._weights & _LOW
        self._narrow = max(weights) < 1 << 32
        self._phases = np.array(phases, np.uint64)
        self._limits = np.array(ends, np.uint64)
        self._reach = self._limits // self._weights
        self._guesses = _Guesses(weights, ends)
        active = [source for source, end in enumerate(ends) if end]
        self._sole = active[0] if len(active) == 1 else None

    def locate(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """(source, slot number) of the positions [start, stop). Raises ``IndexError`` past the end or 2**60."""
        self._check(start, stop)
        if self._sole is not None:
            return np.full(stop - start, self._sole, np.int64), np.arange(start, stop, dtype=np.int64)
        before, sources, slots = self._window(start, stop)
        base = int(before.sum())
        return sources[start - base : stop - base], slots[start - base : stop - base]

    def counts(self, position: int) -> Ints:
        """How many slots of each source stand before ``position``. Raises ``IndexError`` past the end or 2**60."""
        self._check(position, position)
        before, sources, _ = self._window(position, position)
        inside = sources[: position - int(before.sum())]
        return before.astype(np.int64) + np.bincount(inside, minlength=len(before))

    def rank(self, source: int, slot: int) -> int:
        """The position of slot number ``slot`` of ``source``.

        2**60 + 1 for any position beyond 2**60. Raises ``IndexError`` for a slot past its limit.
        """
        if not 0 <= slot < int(self._limits[source]):
            raise IndexError(f"slot {slot:,} of {int(self._limits[source]):,}")
        tick = math.floor(self.times([source], [slot])[0])
        pairs = zip(self._weights.tolist(), self._limits.tolist(), strict=True)
        if sum(min(limit, (weight * tick) >> 64) for weight, limit in pairs) > MOST:
            return MOST + 1
        before, sources, slots = self._between(tick, self._before(tick), tick + 1, self._before(tick + 1))
        inside = np.flatnonzero((sources == source) & (slots == slot))
        return int(before.sum()) + int(inside[0])

    def limit(self, source: int) -> int:
        """Number of slots of ``source``; 2**62 where endless."""
        return int(self._limits[source])

    def times(self, sources: Sequence[int], slots: Sequence[int]) -> list[Fraction]:
        """The virtual times of slots ``slots[i]`` of ``sources[i]``; each source takes part."""
        words = splitmix64(self._phases[list(sources)], np.array(slots, np.uint64)).tolist()
        weights = self._weights[list(sources)].tolist()
        return [Fraction((j << 64) + p, w) for j, p, w in zip(slots, words, weights, strict=True)]

    def _check(self, start: int, stop: int) -> None:
        end = MOST if self.total is None else min(self.total, MOST)
        if not 0 <= start <= stop <= end:
            raise IndexError(f"positions {start:,} to {stop:,} of {end:,}")

    def _window(self, start: int, stop: int) -> tuple[Words, Ints, Ints]:
        """What ``_between`` gives, for whole times that enclose the positions [start, stop)."""
        margin = 2 * math.isqrt(len(self._ids)) + 2
        low = self._guesses.tick(start - margin)
        before = self._before(low)
        while int(before.sum()) > start:
            margin *= 2
            low = self._guesses.tick(start - margin)
            before = self._before(low)
        margin = 2 * math.isqrt(len(self._ids)) + 2
        high = self._guesses.tick(stop + margin)
        after = self._before(high)
        while int(after.sum()) < stop:
            margin *= 2
            high = self._guesses.tick(stop + margin)
            after = self._before(high)
        return self._between(low, before, high, after)

    def _before(self, tick: int) -> Words:
        """How many slots of each source have a time below ``tick``."""
        hour, minute = np.uint64(tick >> 64), tick & _WORD
        high, low = np.uint64(minute >> 32), np.uint64(minute & 0xFFFFFFFF)
        cross, across = high * self._low, low * self._high
        carry = ((low * self._low) >> _U32) + (cross & _LOW) + (across & _LOW)
        whole = high * self._high + (cross >> _U32) + (across >> _U32) + (carry >> _U32)
        whole += np.minimum(hour, self._reach) * self._weights  # no overflow: at most the limit plus the weight
        passed = np.uint64(minute) * self._weights > splitmix64(self._phases, whole)
        counts = np.minimum(whole + passed, self._limits)
        return np.where(hour > self._reach, self._limits, counts)

    def _between(self, low: int, before: Words, high: int, after: Words) -> tuple[Words, Ints, Ints]:
        """(``before``, sources, slot numbers) of the slots with times in [low, high), in order of time."""
        each = (after - before).astype(np.int64)
        sources = np.repeat(np.arange(len(each)), each)
        slots = np.arange(len(sources), dtype=np.uint64) + np.repeat(
            before - (np.cumsum(each) - each).astype(np.uint64), each
        )
        weights, words = self._weights[sources], splitmix64(self._phases[sources], slots)
        hours = slots // weights
        minutes = _quotient(slots - hours * weights, words, weights, self._narrow)
        drop = ((high >> 64) - (low >> 64)).bit_length()
        if drop:  # the whole parts need 64 + drop bits: leave the last ones out, equal keys are compared exactly below
            minutes = ((hours - np.uint64(low >> 64)) << np.uint64(64 - drop)) + (minutes >> np.uint64(drop))
        order = np.argsort(minutes)
        self._settle(order, minutes, sources, slots, words)
        return before, sources[order], slots[order].astype(np.int64)

    def _settle(self, order: Ints, keys: Words, sources: Ints, slots: Words, words: Words) -> None:
        """Put runs of equal ``keys`` in their exact order, ties by id; they are rare, so plain integers do."""
        ranked = keys[order]
        equal = np.flatnonzero(ranked[1:] == ranked[:-1])
        if not equal.size:
            return

        def exact(at: int) -> tuple[Fraction, bytes]:
            time = Fraction((int(slots[at]) << 64) + int(words[at]), int(self._weights[sources[at]]))
            return time, self._ids[sources[at]]

        for run in np.split(equal, np.flatnonzero(np.diff(equal) != 1) + 1):
            first, last = int(run[0]), int(run[-1]) + 2
            order[first:last] = sorted(order[first:last].tolist(), key=exact)


class _Guesses:
    """About which time a position stands at: the inverse of sum min(L_s, W_s x / 2**64), in straight pieces."""

    __slots__ = ("_positions", "_ticks", "_totals")

    def __init__(self, weights: Sequence[int], ends: Sequence[int]) -> None:
        left = sum(weight for weight, end in zip(weights, ends, strict=True) if end)
        self._positions, self._ticks, self._totals = [0], [0], [left]
        done = 0
        finite = [(end << 64) // w for w, end in zip(weights, ends, strict=True) if w and 0 < end < _ENDLESS]
        owners = [s for s, (w, end) in enumerate(zip(weights, ends, strict=True)) if w and 0 < end < _ENDLESS]
        for tick, source in sorted(zip(finite, owners, strict=True)):
            done += ends[source]
            left -= weights[source]
            self._positions.append(done + (left * tick >> 64))
            self._ticks.append(tick + 1)
            self._totals.append(left)

    def tick(self, position: int) -> int:
        """A whole time near ``position``; at or after all slots for a position at or after their number."""
        if position <= 0:
            return 0
        piece = bisect_right(self._positions, position) - 1
        if not self._totals[piece]:
            return self._ticks[piece]
        return self._ticks[piece] + ((position - self._positions[piece]) << 64) // self._totals[piece]


def _quotient(high: Words, low: Words, divisor: Words, narrow: bool) -> Words:
    """(high 2**64 + low) // divisor for high < divisor < 2**48, by digits of 16 bits; of 32 where it is ``narrow``."""
    width, digit = (_U32, _LOW) if narrow else (_U16, _DIGIT)
    found = np.zeros_like(low)
    rest = high
    for shift in range(64 - int(width), -1, -int(width)):
        rest = (rest << width) | ((low >> np.uint64(shift)) & digit)
        each = rest // divisor
        rest = rest - each * divisor
        found = (found << width) | each
    return found
