"""SPDL: a pipeline of threads that gathers a batch of windows from a map of the flat file at each call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from spdl.pipeline import PipelineBuilder


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    """The flat file is there."""


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[np.ndarray]:
    tokens = np.memmap(corpus["flat"], np.uint16, "r")
    order = np.random.default_rng(17).permutation(len(tokens) // length)

    def gather(indices: list[int]) -> np.ndarray:
        out = np.empty((len(indices), length), np.uint16)
        for row, index in enumerate(indices):
            out[row] = tokens[index * length : (index + 1) * length]
        return out

    chosen = order[: len(order) // size * size].reshape(-1, size)
    builder = PipelineBuilder().add_source(row.tolist() for row in chosen)
    pipeline = builder.pipe(gather, concurrency=max(workers, 1)).add_sink(3).build(num_threads=max(workers, 1))
    with pipeline.auto_stop():
        yield from pipeline.get_iterator()
