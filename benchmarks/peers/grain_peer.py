"""Grain over a user's own source: windows of a map of the flat file, shuffled and batched by Grain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np


class Windows:
    """A random-access source."""

    def __init__(self, path: str, length: int) -> None:
        self._path, self._length = path, length
        self._tokens = np.memmap(path, np.uint16, "r")

    def __len__(self) -> int:
        return len(self._tokens) // self._length

    def __getitem__(self, index: int) -> np.ndarray:
        return self._tokens[index * self._length : (index + 1) * self._length]

    def __reduce__(self) -> Any:
        return Windows, (self._path, self._length)


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    """The flat file is there."""


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[np.ndarray]:
    data = grain.MapDataset.source(Windows(corpus["flat"], length)).shuffle(seed=17)
    whole = data.batch(size, drop_remainder=True).to_iter_dataset(grain.ReadOptions(num_threads=1))
    if workers:
        whole = whole.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return iter(whole)
