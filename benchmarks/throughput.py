"""Build throughput against the bare tokenizer call on the same cores: at least 0.85.

Usage: throughput.py TOKENIZER.json [MEGABYTES] [FILE.jsonl COLUMN]. Without FILE the text is the Python source on this
machine (real, varied, never twice the same), in documents of at most 8,000 characters. The floor is ``encode_batch_fast`` over parsed text
with its output dropped, in as many processes as the build has workers, each with one thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import sysconfig
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
handlers = [{{ use = "tokenize", column = "{column}" }}]
[mixture.train]
weights = {{ web = 1 }}
[examples]
length = 2048
"""


def python_source(wanted: int) -> list[bytes]:
    """JSON lines of the Python source that comes with Python and its packages, about ``wanted`` bytes."""
    found, size = [], 0
    for path in sorted(
        p for base in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")) for p in Path(base).rglob("*.py")
    ):
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for at in range(0, len(text), 8000):
            found.append(json.dumps({"text": text[at : at + 8000]}).encode() + b"\n")
            size += len(found[-1])
        if size > wanted:
            break
    return found


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
    tokenizer = str(Path(sys.argv[1]).resolve())
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 120
    column = sys.argv[4] if len(sys.argv) > 4 else "text"
    lines = (
        Path(sys.argv[3]).read_bytes().splitlines(keepends=True) if len(sys.argv) > 3 else python_source(wanted << 20)
    )
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "data").mkdir()
        size, files = 0, []
        for n in range(0, len(lines), max(1, len(lines) // 12)):
            data = b"".join(lines[n : n + max(1, len(lines) // 12)])
            files.append(root / "data" / f"{len(files):03}.jsonl")
            files[-1].write_bytes(data)
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
