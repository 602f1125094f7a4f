"""dsbuild through torch's DataLoader, of as many workers as asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ours
import torch
from torch.utils.data import DataLoader


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    """The store is there."""


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    data = ours.verified(corpus["hashes"][f"web-{length}"], corpus["store"])
    whole = data.torch(size, dtype=torch.uint16, columns=["input_ids"], prefetch=0)  # as our own loader here
    for batch in DataLoader(whole, batch_size=None, num_workers=workers):
        yield batch["input_ids"]
