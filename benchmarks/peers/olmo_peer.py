"""OLMo-core: the flat file is its format; ``NumpyFSLDatasetConfig`` and ``NumpyDataLoaderConfig``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from olmo_core.data import NumpyDataLoaderConfig, NumpyFSLDatasetConfig, TokenizerConfig


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    """The flat file is there."""


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    tokenizer = TokenizerConfig(vocab_size=50_000, eos_token_id=0, pad_token_id=0)
    data = NumpyFSLDatasetConfig(
        tokenizer=tokenizer, paths=[corpus["flat"]], sequence_length=length, work_dir=str(directory)
    ).build()
    loader = NumpyDataLoaderConfig(
        global_batch_size=size * length,
        seed=17,
        work_dir=str(directory),
        num_workers=workers,
        num_threads=None if workers else 0,
    ).build(data)
    loader.reshuffle(epoch=1)
    for batch in loader:
        yield batch["input_ids"]
