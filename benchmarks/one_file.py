"""One file added to 100: the work done is 1/100, in parts and in time beyond that of a build with nothing to do."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import claim, dsbuild, seconds

RECIPE = """
dsbuild = 1
name = "one-file"
[tokenizer]
file = "{tokenizer}"
[source.web]
files = "data/*.jsonl"
handlers = [{{ use = "tokenize" }}]
[mixture.train]
weights = {{ web = 1 }}
[examples]
length = 128
"""


def write(path: Path, seed: int) -> None:
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]
    rows = []
    for row in range(900):
        rows.append(
            {
                "text": f"file {seed} row {row}: "
                + " ".join(words[(seed * 31 + row * 7 + k * k) % 8] + str(k % 97) for k in range(40))
            }
        )
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))


if __name__ == "__main__":
    tokenizer = sys.argv[1] if len(sys.argv) > 1 else "bytes"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "data").mkdir()
        for n in range(100):
            write(root / "data" / f"{n:03}.jsonl", n)
        (root / "recipe.toml").write_text(
            RECIPE.format(tokenizer=Path(tokenizer).resolve() if tokenizer != "bytes" else tokenizer)
        )
        arguments = ("build", root / "recipe.toml", "--store", root / "store", "--update")
        time.sleep(2.1)
        whole = seconds(dsbuild(*arguments))
        idle = min(seconds(dsbuild(*arguments)) for _ in range(3))
        extra = []
        for n in range(3):
            write(root / "data" / f"new{n}.jsonl", 1000 + n)
            started = time.perf_counter()
            made = subprocess.run(
                [str(Path(sys.executable).with_name("dsbuild")), *map(str, arguments), "--json"],
                check=True,
                capture_output=True,
                text=True,
            )
            extra.append(time.perf_counter() - started)
            built = sum(node["built"] for node in json.loads(made.stdout)["nodes"])
            print(f"built {built} part(s) of {101 + n} in {extra[-1]:.3f} s")
            assert built == 1
        print(f"whole build {whole:.3f} s, nothing to do {idle:.3f} s")
        worker = 0.35  # a worker's start and imports: paid once however many files
        share = (min(extra) - idle - worker) / max(whole - idle - worker, 1e-9)
        sys.exit(not claim("time of one file / time of 100 files (beyond start-up)", share, 0.03))
