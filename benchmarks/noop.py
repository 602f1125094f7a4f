"""A build with nothing to do over a source of 10,000 files, against one scandir and stat pass: at most 5 x + 0.3 s."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from measure import claim, compare, dsbuild

RECIPE = """
dsbuild = 1
name = "noop"
[tokenizer]
file = "bytes"
[source.web]
files = "data/*.jsonl"
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { web = 1 }
[examples]
length = 128
"""


def scan(directory: Path) -> int:
    with os.scandir(directory) as entries:
        return sum(entry.stat().st_size for entry in entries)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "data").mkdir()
        for n in range(10_000):
            (root / "data" / f"{n:05}.jsonl").write_text(f'{{"text": "file {n} has a line of its own"}}\n')
        (root / "recipe.toml").write_text(RECIPE)
        build = dsbuild("build", root / "recipe.toml", "--store", root / "store")
        import time

        time.sleep(2.1)  # files younger than two seconds are hashed again, by rule
        build()
        build()
        found = compare(
            {"scandir + stat of 10,000 files": lambda: scan(root / "data"), "dsbuild build, nothing to do": build}
        )
        floor, ours = found.values()
        sys.exit(not claim("seconds of a no-op build over 10,000 files", ours, 5 * floor + 0.3))
