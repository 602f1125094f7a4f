"""Megatron-core: an IndexedDataset of documents and a GPTDataset over it, under torch's DataLoader.

A batch has tokens, labels, loss mask and positions, as its training loop needs them; no attention mask is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from torch.utils.data import DataLoader


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    prefix = directory / "train"
    if prefix.with_suffix(".idx").exists():
        return
    tokens, ends = np.memmap(corpus["flat"], np.uint16, "r"), np.load(corpus["ends"])
    builder = IndexedDatasetBuilder(str(prefix.with_suffix(".bin")), dtype=np.uint16)
    for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        builder.add_document(tokens[a:b], [b - a])
    builder.finalize(str(prefix.with_suffix(".idx")))


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[torch.Tensor]:
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=0, world_size=1)
    tokenizer = SimpleNamespace(
        vocab_size=50_000, eod=49_999, eos=49_999, pad=-1, special_tokens_dict={}, unique_identifiers={"name": "none"}
    )
    config = GPTDatasetConfig(
        random_seed=17,
        sequence_length=length,
        blend=([str(directory / "train")], None),
        split="1,0,0",
        path_to_cache=str(directory / "cache"),
        tokenizer=tokenizer,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    samples = len(np.memmap(corpus["flat"], np.uint16, "r")) // length - 1
    data, _, _ = BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, config).build()
    for batch in DataLoader(data, batch_size=size, num_workers=workers, drop_last=True):
        yield batch["tokens"]
