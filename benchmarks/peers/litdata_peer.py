"""LitData: ``optimize`` into chunks of tokens, ``StreamingDataset`` with a ``TokensLoader``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import litdata
import numpy as np
import torch

CHUNK = 8192 * 1024
"""Tokens of a chunk: 16 MiB, whole windows of either length."""


def _tokens(number: int, flat: str) -> Iterator[torch.Tensor]:
    tokens = np.memmap(flat, np.uint16, "r")[number * CHUNK : (number + 1) * CHUNK]
    for at in range(0, len(tokens), 8192):
        yield torch.from_numpy(tokens[at : at + 8192].copy())


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    if (directory / "index.json").exists():
        return
    count = -(-Path(corpus["flat"]).stat().st_size // (2 * CHUNK))
    litdata.optimize(
        fn=partial(_tokens, flat=corpus["flat"]),
        inputs=list(range(count)),
        output_dir=str(directory),
        chunk_size=CHUNK,
        num_workers=1,
        reorder_files=False,
        item_loader=litdata.TokensLoader(),
    )


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    data = litdata.StreamingDataset(
        str(directory), item_loader=litdata.TokensLoader(block_size=length), shuffle=True, drop_last=True, seed=17
    )
    return iter(litdata.StreamingDataLoader(data, batch_size=size, num_workers=workers, drop_last=True))
