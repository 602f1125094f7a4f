"""Real files through a real tokenizer: token counts equal to the tokenizer called directly, every document whole."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RECIPE = """
dsbuild = 1
name = "real"
seed = 3
[tokenizer]
file = "{data}/gpt2_tokenizer.json"
eos = "<|endoftext|>"
[source.gsm]
files = "{gsm}"
part_bytes = 524288
handlers = [{{ use = "rename", columns = {{ question = "text" }} }}, {{ use = "tokenize" }}]
[source.plays]
files = "{data}/tinyshakespeare.txt"
handlers = [{{ use = "tokenize" }}]
[source.tongues]
files = "{data}/multilingual.jsonl"
handlers = [{{ use = "tokenize" }}]
[mixture.train]
weights = {{ gsm = 7, plays = 2, tongues = 1 }}
[examples]
length = 1024
mask = "document"
"""


def stored(project: Any, label: str) -> list[np.ndarray]:
    store = project.store
    manifest = store.manifest(project.prepare().instance.outputs[label])
    found = []
    for part in range(len(manifest)):
        values, offsets = store.object(manifest.content(part)).column("input_ids")
        found += [np.asarray(values[a:b]) for a, b in itertools.pairwise(offsets)]
    return found


@pytest.fixture(scope="module")
def engine(test_data: Path) -> Any:
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(test_data / "gpt2_tokenizer.json"))
    loaded.encode_special_tokens = True
    return loaded


def test_three_sources(project: Any, test_data: Path, engine: Any) -> None:
    project.write("recipe.toml", RECIPE.format(data=test_data, gsm=f"{test_data}/gsm8k_train.jsonl"))
    project.build(jobs=2)
    texts = {
        "gsm": [json.loads(line)["question"] for line in (test_data / "gsm8k_train.jsonl").open(encoding="utf-8")],
        "plays": [(test_data / "tinyshakespeare.txt").read_text("utf-8")],
        "tongues": [json.loads(line)["text"] for line in (test_data / "multilingual.jsonl").open(encoding="utf-8")],
    }
    for label, documents in texts.items():
        found = stored(project, label)
        assert len(found) == len(documents)
        direct = [e.ids for e in engine.encode_batch_fast(documents, add_special_tokens=False)]
        assert sum(map(len, found)) == sum(map(len, direct)) + len(documents)
        for ids, expected, text in zip(found, direct, documents, strict=True):
            assert ids[-1] == 50256
            assert ids[:-1].tolist() == expected
            assert engine.decode(ids[:-1].tolist(), skip_special_tokens=False) == text
    dataset = project.open()
    batch = dataset.batch(2, 8)
    assert batch["input_ids"].shape == (8, 1024)
    assert ((batch["labels"] == -100) | (batch["labels"] < 50257)).all()


@pytest.mark.parametrize("name", ["gsm8k_train.parquet", "gsm8k_train.arrow"])
def test_formats_give_equal_tokens(project: Any, make_project: Any, test_data: Path, name: str) -> None:
    twin = make_project()
    project.write("recipe.toml", RECIPE.format(data=test_data, gsm=f"{test_data}/gsm8k_train.jsonl"))
    twin.write("recipe.toml", RECIPE.format(data=test_data, gsm=f"{test_data}/{name}"))
    for one in (project, twin):
        one.build()
    a, b = (np.concatenate(stored(one, "gsm")) for one in (project, twin))
    assert (a == b).all()
