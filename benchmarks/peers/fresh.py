"""Fresh: what a process sees that has just been started. Usage: fresh.py first|memory|cold|map CORPUS.json [STEPS].

``first``: a line of JSON at the first batch, one after some seeks; ``memory``: private MB after an epoch; ``cold`` and
``map``: seconds for the first STEPS batches, of dsbuild's loader and of a plain gather from a map of the flat file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import dsbuild

LENGTH, SIZE = 2048, 32
COLUMNS = ["input_ids", "segment_ids", "position_ids", "labels"]
HEAVY = ("torch", "jax", "ray", "pyarrow", "zarr", "tokenizers")
SEEKS = 25
COLD = {"prefetch": 8, "threads": 4}
"""How far ahead and with how many threads the loader reads where reading is slow."""


def opened(corpus: dict[str, Any]) -> Any:
    return dsbuild.open_dataset(corpus["hashes"][f"web-{LENGTH}"], store=corpus["store"])


def first(corpus: dict[str, Any]) -> None:
    import numpy as np

    opener = dsbuild.open_dataset  # what is imported at its first use is imported now
    started = time.perf_counter()
    data = opener(corpus["hashes"][f"web-{LENGTH}"], store=corpus["store"])
    ready = time.perf_counter()
    loader = data.loader(SIZE, columns=COLUMNS)
    next(loader)
    done = time.perf_counter()
    imported = [name for name in HEAVY if name in sys.modules]
    say = {"open_ms": (ready - started) * 1e3, "batch_ms": (done - ready) * 1e3, "imported": imported}
    print(json.dumps(say), flush=True)
    steps = data.steps(SIZE)
    found: dict[str, list[float]] = {"prefetch 0": [], "prefetch 2": []}
    for name, times in found.items():
        loader = data.loader(SIZE, columns=COLUMNS, prefetch=int(name[-1]))
        for n in range(SEEKS):
            step = int(steps * 0.9) + int(np.random.default_rng(n).integers(steps // 20 + 1))
            time.sleep(0.02)  # a step of training: what is made ahead is made
            before = time.perf_counter()
            loader.seek(step)
            next(loader)
            times.append((time.perf_counter() - before) * 1e3)
        loader.close()
    print(json.dumps(found), flush=True)


def memory(corpus: dict[str, Any]) -> None:
    import private

    for _ in opened(corpus).loader(SIZE, columns=COLUMNS):
        pass
    print(json.dumps({"private_mb": private.megabytes()}))


def cold(corpus: dict[str, Any], steps: int) -> None:
    import numpy as np

    started = time.perf_counter()
    loader = opened(corpus).loader(SIZE, columns=["input_ids"], dtype=np.uint16, **COLD)
    for _ in range(steps):
        next(loader)
    print(json.dumps({"seconds": time.perf_counter() - started, "read_mb": read_megabytes()}))
    loader.close()


def read_megabytes() -> float:
    """What this process had the disk read."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"]) / 1e6


def plain(corpus: dict[str, Any], steps: int) -> None:
    """The same windows: their places were written down beforehand."""
    import floor
    import numpy as np

    starts = np.load(Path(corpus["root"]) / "cold.npy")
    started = time.perf_counter()
    view = floor.mapped(corpus["flat"], populate=False)
    for _ in floor.numpy_batches(view, starts[: steps * SIZE], LENGTH, SIZE):
        pass
    print(json.dumps({"seconds": time.perf_counter() - started, "read_mb": read_megabytes()}))


if __name__ == "__main__":
    corpus = json.loads(Path(sys.argv[2]).read_text())
    verb, steps = sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if verb == "first":
        first(corpus)
    elif verb == "memory":
        memory(corpus)
    elif verb == "cold":
        cold(corpus, steps)
    else:
        plain(corpus, steps)
