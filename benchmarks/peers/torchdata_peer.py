"""torchdata's StatefulDataLoader over a user's own class: windows of a map of the flat file, a batch a call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchdata.stateful_dataloader import StatefulDataLoader


class Windows(torch.utils.data.Dataset[Any]):
    def __init__(self, path: str, length: int) -> None:
        self._tokens, self._length = np.memmap(path, np.uint16, "r"), length

    def __len__(self) -> int:
        return len(self._tokens) // self._length

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        out = np.empty((len(indices), self._length), np.uint16)
        for row, index in enumerate(indices):
            out[row] = self._tokens[index * self._length : (index + 1) * self._length]
        return torch.from_numpy(out)


def _whole(batch: torch.Tensor) -> torch.Tensor:
    return batch


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    """The flat file is there."""


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    data = Windows(corpus["flat"], length)
    return iter(StatefulDataLoader(data, size, shuffle=True, drop_last=True, num_workers=workers, collate_fn=_whole))
