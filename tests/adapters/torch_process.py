"""One of several gloo processes: writes its rows of every batch to OUT, read with and without workers.

Arguments: hash, store, rendezvous file, rank, world, batch size, first step, out.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch.utils.data import DataLoader

from dsbuild import open_dataset
from dsbuild.load import RangeError


def main(target: str, store: str, meeting: str, rank: str, world: str, size: str, start: str, out: str) -> None:
    dataset = open_dataset(target, store=store)
    early = dataset.torch(int(size))
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=int(world))
    try:
        next(iter(early))
    except RangeError as error:
        assert "init_process_group" in error.render()
    else:
        raise AssertionError("batches that were made before the group was known read every row")
    batches = dataset.torch(int(size), start=int(start))
    assert (batches.rank, batches.world) == (int(rank), int(world))
    taken = [list(DataLoader(batches, batch_size=None, num_workers=k)) for k in (0, 2)]
    for one, other in zip(*taken, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    # what all ranks hold is one batch: the sum over ranks of their rows' sums is the same on each
    total = torch.stack([batch["input_ids"].sum() for batch in taken[0]])
    torch.distributed.all_reduce(total)
    rows = {name: np.stack([batch[name].numpy() for batch in taken[0]]) for name in taken[0][0]}
    np.savez(out, total=total.numpy(), **rows)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
