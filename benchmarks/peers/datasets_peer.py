"""HuggingFace datasets: rows of fixed length in Arrow, shuffled by torchdata's StatefulDataLoader, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from torch.utils.data import BatchSampler, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader


def prepare(corpus: dict[str, Any], directory: Path, length: int) -> None:
    target = directory / str(length)
    if (target / "state.json").exists():
        return
    import pyarrow as pa

    tokens = np.memmap(corpus["flat"], np.uint16, "r")
    rows = tokens[: len(tokens) // length * length]
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows), length)
    features = datasets.Features({"input_ids": datasets.List(datasets.Value("uint16"), length=length)})
    datasets.Dataset(pa.table({"input_ids": column}), info=datasets.DatasetInfo(features=features)).save_to_disk(target)


def batches(corpus: dict[str, Any], directory: Path, length: int, size: int, workers: int) -> Iterator[np.ndarray]:
    data = datasets.load_from_disk(str(directory / str(length))).with_format("numpy")
    sampler = BatchSampler(RandomSampler(data), size, drop_last=True)
    for batch in StatefulDataLoader(data, batch_size=None, sampler=sampler, num_workers=workers):
        yield batch["input_ids"]
