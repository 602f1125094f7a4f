"""Steady: dsbuild's loader against the floor in one warm process; JSON on stdout. Usage: steady.py CORPUS.json ROUNDS SECONDS.

Every block was verified before the timing begins, by a whole epoch; the first passes, where blocks are verified at
their first touch, are timed apart, each on a dataset that was just opened.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import floor
import numpy as np
from rates import Endless, in_turn

import dsbuild

SHAPES = ((2048, 32), (8192, 8))
IDS = ("input_ids",)
PACKED = ("input_ids", "segment_ids", "position_ids")
FLOOR, GATHER = "floor: numpy gather", "C gather"


def batches(data: Any, size: int, columns: tuple[str, ...], **options: Any) -> Callable[[], Iterator[Any]]:
    """What makes a loader over one epoch."""
    return lambda: iter(data.loader(size, dtype=np.uint16, columns=columns, **options))


def ours(data: Any, size: int) -> dict[str, Callable[[], Iterator[Any]]]:
    found = {}
    for prefetch in (0, 2):
        for reuse in (True, False):
            name = f"input_ids, prefetch = {prefetch}, {'reused' if reuse else 'new'} arrays"
            found[name] = batches(data, size, IDS, prefetch=prefetch, reuse=reuse)
    for prefetch in (0, 2):
        found[f"packed documents, prefetch = {prefetch}"] = batches(data, size, PACKED, prefetch=prefetch)
    found["packed documents and labels, prefetch = 2"] = batches(data, size, (*PACKED, "labels"), prefetch=2)
    return found


def first_pass(corpus: dict[str, Any], name: str, size: int, columns: tuple[str, ...], **options: Any) -> float:
    """M tokens/s of an epoch in which every block is verified."""
    with dsbuild.open_dataset(corpus["hashes"][name], store=corpus["store"]) as data:
        started = time.perf_counter()
        count = sum(1 for _ in batches(data, size, columns, **options)())
        return count * size * data.shape.length / (time.perf_counter() - started) / 1e6


def shape(corpus: dict[str, Any], length: int, size: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Medians, in M tokens/s."""
    data = dsbuild.open_dataset(corpus["hashes"][f"web-{length}"], store=corpus["store"])
    assert len(data.sources[0].parts) >= 24, "windows cross the borders of parts"
    view = floor.mapped(corpus["flat"])
    whole = data.steps(size) * size
    starts = data.rows(0, whole)["example"] * length
    usual = starts[starts + length <= len(view)]  # a last window may be shorter
    things = {FLOOR: Endless(lambda: floor.numpy_batches(view, usual, length, size), length * size)}
    gather = floor.c_gather()
    if gather is not None:
        things[GATHER] = Endless(lambda: floor.c_batches(gather, view, usual, length, size), length * size)
    same(data, view, starts, size, gather)
    for _ in batches(data, size, (*PACKED, "labels"), prefetch=0)():
        pass
    for name, make in ours(data, size).items():
        things[name] = Endless(make, length * size)
    return in_turn(things, rounds, seconds)


def same(data: Any, view: np.ndarray, starts: np.ndarray, size: int, gather: Any) -> None:
    """All of them give the same batches."""
    length = data.shape.length
    kept = [starts[: 4 * size], length, size]
    others = [floor.numpy_batches(view, *kept)] + ([floor.c_batches(gather, view, *kept)] if gather else [])
    made = [make() for make in ours(data, size).values()]
    for step, batch in enumerate(zip(*made, *others, strict=False)):
        if (starts[step * size : (step + 1) * size] + length > len(view)).any():
            continue
        arrays = [one["input_ids"] if isinstance(one, dict) else one for one in batch]
        assert all(np.array_equal(arrays[0], one) for one in arrays[1:]), f"step {step} differs"
    for one in made:
        one.close()


def sources(corpus: dict[str, Any], rounds: int, seconds: float) -> dict[str, float]:
    """One source of a thousand files, and a mixture of a thousand sources of a file each."""
    length, size = SHAPES[0]
    things = {}
    for name in ("one", "many"):
        data = dsbuild.open_dataset(corpus["hashes"][name], store=corpus["store"])
        for columns, called in ((IDS, "input_ids"), (PACKED, "packed documents")):
            make = batches(data, size, columns, prefetch=2)
            for _ in make():
                pass
            things[f"{name}, {called}"] = Endless(make, length * size)
    return in_turn(things, rounds, seconds)


if __name__ == "__main__":
    corpus = json.loads(Path(sys.argv[1]).read_text())
    rounds, seconds = int(sys.argv[2]), float(sys.argv[3])
    found: dict[str, Any] = {
        f"{length:,} x {size}": shape(corpus, length, size, rounds, seconds) for length, size in SHAPES
    }
    length, size = SHAPES[0]
    found["first pass"] = {
        f"{called}, prefetch = {prefetch}": statistics.median(
            first_pass(corpus, f"web-{length}", size, columns, prefetch=prefetch) for _ in range(min(rounds, 3))
        )
        for columns, called in ((IDS, "input_ids"), (PACKED, "packed documents"))
        for prefetch in (0, 2)
    }
    found["sources"] = sources(corpus, rounds, seconds)
    print(json.dumps(found))
