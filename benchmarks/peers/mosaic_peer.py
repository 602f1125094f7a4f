"""MosaicML Streaming: windows as samples of MDS, shuffled by its StreamingDataset."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

# its classes for pictures need torchvision, and its package imports them; nothing here does
sys.modules.setdefault("streaming.vision", types.ModuleType("streaming.vision"))
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402
from streaming.base.util import clean_stale_shared_memory  # noqa: E402


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    target = directory / str(length)
    clean_stale_shared_memory()
    if (target / "index.json").exists():
        return
    tokens = np.memmap(corpus["flat"], np.uint16, "r")
    with MDSWriter(out=str(target), columns={"input_ids": f"ndarray:uint16:{length}"}) as out:
        for at in range(0, len(tokens) - length + 1, length):
            out.write({"input_ids": np.array(tokens[at : at + length])})


@cache
def _loader(directory: str, size: int, workers: int) -> StreamingDataLoader:
    data = StreamingDataset(local=directory, shuffle=True, batch_size=size, shuffle_seed=17, num_canonical_nodes=1)
    return StreamingDataLoader(data, batch_size=size, num_workers=workers, drop_last=True)


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    for batch in _loader(str(directory / str(length)), size, workers):  # a directory is for one dataset at a time
        yield batch["input_ids"]
