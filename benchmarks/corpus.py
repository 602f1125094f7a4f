"""Corpus: tokens of a seeded generator as files, as stores that ``dsbuild build`` makes of them, and as one flat file.

Documents have lognormal lengths (mean 600 tokens) of random ids below 50,000. Token i is the character U+0100 + i, and
the tokenizer has one id for each such character, so that the built tokens are the generator's. The flat file has the
tokens of the split ``train`` one after the other: what a plain gather and the peers read.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY = 50_000
FIRST = 0x100
MEAN = 600
FILES = 28
LENGTHS = (2048, 8192)
SOURCES = 1000
LEAST = 30_000
"""Tokens of each of the thousand small files, at least: files under 64 KiB are grouped into parts."""

RECIPE = """dsbuild = 1
name = "{name}"
seed = 17
[tokenizer]
file = "tokenizer.json"
{sources}
[examples]
length = {length}
mask = "document"
"""
WEB = """[source.web]
files = "web/*.jsonl"
handlers = [{ use = "tokenize" }]
split = { train = 0.999, valid = 0.001 }
[mixture.train]
weights = { web = 1 }
[mixture.valid]
weights = { web = 1 }"""
ONE = """[source.all]
files = "small/*.jsonl"
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { all = 1 }"""


def environment() -> dict[str, str]:
    """The environment of processes that are measured: Python may keep its compiled modules."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def package() -> Path:
    """Where dsbuild is."""
    found = importlib.util.find_spec("dsbuild")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def prepare(root: Path, tokens: int) -> dict[str, Any]:
    """Make what is missing under ``root``; returns what the measurements need, all of it as JSON values."""
    root.mkdir(parents=True, exist_ok=True)
    size = root / "tokens"
    if size.exists() and int(size.read_text()) != tokens:
        raise SystemExit(f"{root}: has a corpus of {int(size.read_text()):,} tokens; name another directory")
    size.write_text(str(tokens))
    _once(root, "web", lambda at: _write_all(at, tokens, FILES))
    _once(root, "small", lambda at: _write_all(at, max(tokens // 4, SOURCES * LEAST), SOURCES))
    (root / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    made = {f"web-{length}": _build(root, f"web-{length}", WEB, length) for length in LENGTHS}
    made["one"] = _build(root, "one", ONE, LENGTHS[0])
    made["many"] = _build(root, "many", _many(), LENGTHS[0])
    found = {"root": str(root), "store": str(root / "store"), "hashes": made, "tokens": tokens}
    flat, ends = root / "train.u16", root / "ends.npy"
    key = root / "train.hash"
    if not (key.exists() and key.read_text() == made["web-2048"]):
        _flatten(found, flat, ends)
        key.write_text(made["web-2048"])
    return {**found, "flat": str(flat), "ends": str(ends)}


def documents(seed: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """(uint16 ids, int64 ends of documents) of one file: ``tokens`` tokens."""
    random = np.random.default_rng([20_240_607, seed])
    count = 2 * tokens // MEAN + 64
    lengths = np.maximum(random.lognormal(math.log(MEAN) - 0.5, 1.0, count).astype(np.int64), 1)
    ends = np.minimum(np.cumsum(lengths), tokens)
    ends = ends[: int(np.searchsorted(ends, tokens)) + 1]
    return random.integers(0, VOCABULARY, tokens, np.uint16), ends


def shares(tokens: int, files: int) -> list[int]:
    """Tokens of each file."""
    return [tokens * (n + 1) // files - tokens * n // files for n in range(files)]


def _once(root: Path, name: str, make: Any) -> None:
    if not (root / name).exists():
        started = time.perf_counter()
        made = root / f"{name}.partial"
        made.mkdir(exist_ok=True)
        make(made)
        made.rename(root / name)
        print(f"  made {name} in {time.perf_counter() - started:.0f} s", file=sys.stderr)


def _write_all(directory: Path, tokens: int, files: int) -> None:
    for number, share in enumerate(shares(tokens, files)):
        ids, ends = documents(files * 1_000_000 + number, share)
        text = (ids.astype("<u4") + FIRST).tobytes().decode("utf-32-le")
        starts = [0, *ends.tolist()]
        lines = (f'{{"text":"{text[a:b]}"}}\n' for a, b in itertools.pairwise(starts))
        (directory / f"{number:04}.jsonl").write_text("".join(lines), "utf-8")


def _tokenizer() -> dict[str, Any]:
    vocabulary = {chr(FIRST + i): i for i in range(VOCABULARY)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "fuse_unk": False, "byte_fallback": False}
    return {"version": "1.0", "added_tokens": [], "model": model}


def _many() -> str:
    one = '[source.s{n:04}]\nfiles = "small/{n:04}.jsonl"\nhandlers = [{{ use = "tokenize" }}]'
    weights = ", ".join(f"s{n:04} = {1 + n % 7}" for n in range(SOURCES))
    sources = "\n".join(one.format(n=n) for n in range(SOURCES))
    # one epoch of each, whatever its weight: the stream has the examples of the one source
    return f"{sources}\n[mixture.train]\nuntil = {{ epochs = 1 }}\nweights = {{ {weights} }}"


def _build(root: Path, name: str, sources: str, length: int) -> str:
    recipe = root / f"{name}.toml"
    recipe.write_text(RECIPE.format(name=name, sources=sources, length=length))
    started = time.perf_counter()
    script = Path(sys.executable).with_name("dsbuild")
    command = [str(script), "build", str(recipe), "--store", str(root / "store"), "--update", "--json"]
    made = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if made.returncode:
        raise SystemExit(f"{name}: the build failed\n{made.stderr}")
    taken = time.perf_counter() - started
    answer = json.loads(made.stdout)
    print(f"  built {name} in {taken:.1f} s", file=sys.stderr)
    return str(answer["hash"])


def _flatten(found: dict[str, Any], flat: Path, ends: Path) -> None:
    """Write the tokens of ``train`` in the order of the records, read through the loader, held against the generator."""
    from dsbuild import open_dataset

    data = open_dataset(found["hashes"]["web-2048"], store=found["store"])
    length, size = LENGTHS[0], 256
    tokens = np.zeros(len(data) * length, np.uint16)
    rows = tokens.reshape(-1, length)
    whole = data.steps(size)
    for step in range(whole):
        batch = data.batch(step, size, dtype=np.uint16, columns=["input_ids"])
        rows[data.rows(step, size)["example"]] = batch["input_ids"]
    for position in range(whole * size, len(data)):
        batch = data.examples(position, position + 1, dtype=np.uint16, columns=["input_ids"])
        rows[data.rows(position, 1)["example"]] = batch["input_ids"]
    borders = np.array(list(_matched(tokens, found["tokens"])), np.int64)
    np.save(ends, borders)
    tokens.tofile(flat)


def _matched(tokens: np.ndarray, wanted: int) -> Iterator[int]:
    """The ends in ``tokens`` of the generator's documents that are there, in order. All of ``tokens`` must be one."""
    at, parts = 0, 0
    for number, share in enumerate(shares(wanted, FILES)):
        ids, ends = documents(FILES * 1_000_000 + number, share)
        starts = [0, *ends.tolist()]
        for a, b in itertools.pairwise(starts):
            # the last window ends with what has no next token
            room = min(b - a, len(tokens) - at)
            if room and np.array_equal(tokens[at : at + room], ids[a : a + room]):
                at += room
                yield at
                parts = number
    assert parts == FILES - 1 and len(tokens) - at < LENGTHS[0] + 1, f"{at} of {len(tokens)} tokens are the generator's"
    assert not tokens[at:].any(), "what follows the last document is not padding"
