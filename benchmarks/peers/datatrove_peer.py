"""datatrove: windows shuffled when its file is made, and read in order, as it means it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datatrove.utils.dataset import DatatroveFolderDataset
from torch.utils.data import DataLoader

PARTS = 8


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    target = directory / str(length)
    if target.exists():
        return
    made = directory / f"{length}.partial"
    made.mkdir(exist_ok=True)
    tokens = np.memmap(corpus["flat"], np.uint16, "r")
    rows = tokens[: len(tokens) // length * length].reshape(-1, length)
    order = np.random.default_rng(17).permutation(len(rows))
    for number, part in enumerate(np.array_split(order, PARTS)):
        rows[part].tofile(made / f"{number:02}.ds")
    made.rename(target)


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    # it gives one token more than seq_len
    data = DatatroveFolderDataset(str(directory / str(length)), seq_len=length - 1, token_size=2)
    for batch in DataLoader(data, batch_size=size, num_workers=workers, drop_last=True):
        yield batch["input_ids"]
