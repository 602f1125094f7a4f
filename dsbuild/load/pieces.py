"""Pieces: where the tokens of examples lie, as stretches of stored values; integer arrays only, no data is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dsbuild.load.part import Ints, Part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """m pieces, all int64[m]: piece i is values [``base``, ``base`` + ``size``) of part ``part``, in example ``owner``.

    Owners ascend and count the examples that were asked for from 0; the pieces of one owner are in order. Every piece
    but the first of an example begins with the first token of a record.
    """

    owner: Ints
    part: Ints
    base: Ints
    size: Ints

    def __len__(self) -> int:
        return len(self.owner)


def cut(starts: Ints, stops: Ints, borders: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Stretches [starts, stops) cut at ``borders`` (ascending, the first at most all starts, the last past all stops).

    Returns (owner, place, start, stop): the stretch each piece is of, the number of the border at or before it, and
    its bounds. No piece is empty.
    """
    first = np.searchsorted(borders, starts, "right") - 1
    crossing = stops > borders[first + 1]
    if not crossing.any():
        owner = np.arange(len(starts))
        place, low, high = first, starts, stops
    else:
        last = first.copy()
        last[crossing] = np.searchsorted(borders, stops[crossing], "left") - 1
        counts = last - first + 1
        owner = np.repeat(np.arange(len(starts)), counts)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts - first, counts)
        low, high = np.maximum(starts[owner], borders[place]), np.minimum(stops[owner], borders[place + 1])
    kept = high > low
    if kept.all():
        return owner, place, low, high
    return owner[kept], place[kept], low[kept], high[kept]


def stable_order(keys: Ints) -> Ints:
    """The stable argsort of ``keys`` (int64[n], from 0, below 2^63 / 2n): one sort of keys packed with their places.

    Sorting values is several times as fast as sorting places by values.
    """
    bits = max(len(keys) - 1, 1).bit_length()
    packed = (keys << bits) | np.arange(len(keys))
    packed.sort()
    return packed & ((1 << bits) - 1)


def by_part(part: Ints) -> Iterator[tuple[int, Ints]]:
    """(part number, places where ``part`` has it), each part once."""
    if not len(part):
        return
    if (part == part[0]).all():
        yield int(part[0]), np.arange(len(part))
        return
    order = stable_order(part)
    ranked = part[order]
    start = 0
    for stop in [*(np.flatnonzero(ranked[1:] != ranked[:-1]) + 1).tolist(), len(order)]:
        yield int(ranked[start]), order[start:stop]
        start = stop


def window_pieces(owner: Ints, part: Ints, starts: Ints, stops: Ints, open_part: Callable[[int], Part]) -> Pieces:
    """The pieces of token positions [starts, stops), counted over the selected rows of ``part``, cut at runs."""
    found: list[tuple[Ints, Ints, Ints]] = []
    for number, places in by_part(part):
        runs = open_part(number).runs
        if runs is None:
            found.append((places, starts[places], stops[places] - starts[places]))
            continue
        borders, bases = runs
        at, run, low, high = cut(starts[places], stops[places], borders)
        found.append((places[at], bases[run] + low - borders[run], high - low))
    return _gathered(found, owner, part)


def record_pieces(part: Ints, row: Ints, most: int, open_part: Callable[[int], Part]) -> Pieces:
    """The pieces of examples of one record each: row ``row`` of the object of ``part``, its first ``most`` tokens."""
    base, size = np.empty(len(part), np.int64), np.empty(len(part), np.int64)
    for number, places in by_part(part):
        offsets = open_part(number).offsets("input_ids")
        base[places] = offsets[row[places]]
        size[places] = np.minimum(offsets[row[places] + 1] - base[places], most)
    return Pieces(owner=np.arange(len(part)), part=part, base=base, size=size)


def bin_pieces(part: Ints, number: Ints, most: int, open_part: Callable[[int], Part]) -> Pieces:
    """The pieces of packed examples: the records of bin ``number`` of ``part``, each cut to ``most`` tokens."""
    found: list[tuple[Ints, Ints, Ints]] = []
    for at, places in by_part(part):
        here = open_part(at)
        assert here.bins is not None
        rows, borders = here.bins.column("row")
        assert borders is not None
        starts, counts = borders[number[places]], np.diff(borders)[number[places]]
        owners = np.repeat(places, counts)
        inside = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts - starts, counts)
        offsets = here.offsets("input_ids")
        chosen = rows[inside]
        base = offsets[chosen]
        found.append((owners, base, np.minimum(offsets[chosen + 1] - base, most)))
    return _gathered(found, np.arange(len(part)), part)


def _gathered(found: list[tuple[Ints, Ints, Ints]], owner: Ints, part: Ints) -> Pieces:
    """Pieces of several parts, each (place in ``owner`` and ``part``, base, size), in the order of places."""
    if not found:
        none = np.zeros(0, np.int64)
        return Pieces(owner=none, part=none, base=none, size=none)
    if len(found) == 1:  # places ascend already
        place, base, size = found[0]
        return Pieces(owner=owner[place], part=part[place], base=base, size=size)
    place, base, size = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    order = stable_order(place)
    place = place[order]
    return Pieces(owner=owner[place], part=part[place], base=base[order], size=size[order])
