"""Build throughput against the bare tokenizer call on the same cores: at least 0.85.

Usage: throughput.py TOKENIZER.json FILE.jsonl [COLUMN] [MEGABYTES]. The floor is ``encode_batch_fast`` over parsed text
with its output dropped, in as many processes as the build has workers, each with one thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from pathlib import Path

from measure import claim, compare, dsbuild

RECIPE = """
dsbuild = 1
name = "throughput"
[tokenizer]
file = "{tokenizer}"
[source.web]
files = "data/*.jsonl"
part_bytes = 4194304
handlers = [{{ use = "tokenize", column = "{column}" }}]
[mixture.train]
weights = {{ web = 1 }}
[examples]
length = 2048
"""


def bare(tokenizer: str, column: str, files: list[Path]) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    engine = Tokenizer.from_file(tokenizer)
    for file in files:
        texts = [json.loads(line)[column] for line in file.read_text("utf-8").splitlines()]
        for at in range(0, len(texts), 1000):
            engine.encode_batch_fast(texts[at : at + 1000], add_special_tokens=False)


def floor(tokenizer: str, column: str, files: list[Path], workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=bare, args=(tokenizer, column, files[n::workers])) for n in range(workers)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    tokenizer, source = (str(Path(a).resolve()) for a in sys.argv[1:3])
    column = sys.argv[3] if len(sys.argv) > 3 else "text"
    wanted = int(sys.argv[4]) if len(sys.argv) > 4 else 40
    lines = Path(source).read_bytes().splitlines(keepends=True)
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "data").mkdir()
        size, files = 0, []
        while size < wanted << 20:  # the same lines in another order a file, so that no two files are one content
            n = len(files)
            data = b"".join(lines[n % len(lines) :] + lines[: n % len(lines)])[: 5 << 20].rpartition(b"\n")[0] + b"\n"
            path = root / "data" / f"{n:03}.jsonl"
            path.write_bytes(data)
            files.append(path)
            size += len(data)
        (root / "recipe.toml").write_text(RECIPE.format(tokenizer=tokenizer, column=column))

        def build() -> None:
            shutil.rmtree(root / "store", ignore_errors=True)
            dsbuild("build", root / "recipe.toml", "--store", root / "store")()

        found = compare(
            {
                "tokenizers encode_batch_fast, output dropped": lambda: floor(tokenizer, column, files, workers),
                "dsbuild build (parsed, verified, published)": build,
            },
            rounds=3,
            unit=size / 1e6,
            unit_name="MB",
        )
        times = list(found.values())
        sys.exit(not claim("throughput of the build / of the bare call", times[0] / times[1], 0.85, at_least=True))
