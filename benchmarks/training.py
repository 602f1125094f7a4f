"""A real training step fed by dsbuild, against the same step on one batch that never changes.

Prints the ratio of the two (1 = the loader is never waited for) and how long a step waited for its batch. Runs on the
GPU where there is one, and on the CPU with a smaller model.

    python benchmarks/training.py --directory DIR [--steps 200] [--workers 0]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RECIPE = """
dsbuild = 1
name = "training"
[tokenizer]
file = "bytes"
eos = "<eos>"
[source.text]
files = "data/*.jsonl"
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { text = 1 }
until = { epochs = 1000 }
[examples]
length = 1024
mask = "document"
"""


def prepare(directory: Path) -> str:
    """A dataset of about 40 MB of random text; its hash."""
    data = directory / "data"
    if not data.exists():
        data.mkdir(parents=True)
        rng = np.random.default_rng(0)
        for file in range(8):
            with (data / f"{file}.jsonl").open("w") as out:
                for size in rng.lognormal(6, 1, 8000).astype(int) + 1:
                    text = rng.integers(97, 123, size, dtype=np.uint8).tobytes().decode()
                    out.write(json.dumps({"text": text}) + "\n")
    (directory / "training.toml").write_text(RECIPE)
    command = [sys.executable, "-m", "dsbuild", "build", directory / "training.toml", "--store", directory / "store"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def model_on(torch: Any, device: str, width: int, layers: int) -> Any:
    """A decoder of ``layers`` blocks that attends inside documents."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any, mask: Any) -> Any:
            rows, length, _ = x.shape
            q, k, v = self.qkv(self.norms[0](x)).view(rows, length, 3, -1, 64).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + self.out(y.transpose(1, 2).reshape(rows, length, width))
            return x + self.mlp(self.norms[1](x))

    class Decoder(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(512, width), nn.Embedding(1024, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.head = nn.Linear(width, 512)

        def forward(self, batch: Any) -> Any:
            segments = batch["segment_ids"]
            mask = (segments[:, :, None] == segments[:, None, :]).tril()[:, None]
            x = self.tokens(batch["input_ids"]) + self.places(batch["position_ids"])
            for block in self.blocks:
                x = block(x, mask)
            return nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), batch["labels"].flatten())

    return Decoder().to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()
    import torch
    from torch.utils.data import DataLoader

    import dsbuild
    from dsbuild.load.torch import to_device

    digest = prepare(arguments.directory)
    cuda = torch.cuda.is_available()
    device, size = ("cuda", 32) if cuda else ("cpu", 2)
    model = model_on(torch, device, *((1024, 12) if cuda else (128, 2)))
    optimizer = torch.optim.AdamW(model.parameters())
    dataset = dsbuild.open_dataset(digest, store=arguments.directory / "store")

    def step(batch: Any) -> None:
        with torch.autocast(device, torch.bfloat16, enabled=cuda):
            loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.synchronize()

    def epoch(fed: bool) -> tuple[float, float]:
        loader = DataLoader(dataset.torch(size), batch_size=None, num_workers=arguments.workers, pin_memory=cuda)
        batches = iter(to_device(loader, device))
        batch = next(batches)
        for _ in range(3):
            step(batch)
        waited, begun = 0.0, time.perf_counter()
        for _ in range(arguments.steps):
            if fed:
                asked = time.perf_counter()
                batch = next(batches)
                waited += time.perf_counter() - asked
            step(batch)
        return (time.perf_counter() - begun) / arguments.steps, waited / arguments.steps

    still, fed = [], []
    for _ in range(3):
        still.append(epoch(fed=False)[0])
        fed.append(epoch(fed=True))
    base, ours = statistics.median(still), statistics.median(seconds for seconds, _ in fed)
    waited = statistics.median(wait for _, wait in fed)
    name = torch.cuda.get_device_name() if cuda else "CPU"
    print(
        f"{name}, batches of {size} x 1,024: a step with one still batch {1e3 * base:.2f} ms, fed {1e3 * ours:.2f} ms"
    )
    print(f"ratio {ours / base:.3f}; a step waited {1e3 * waited:.3f} ms for its batch ({waited / ours:.2%} of it)")


if __name__ == "__main__":
    main()
