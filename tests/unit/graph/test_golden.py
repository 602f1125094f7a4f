"""Golden: what is hashed for each form of the stream. ``tests/golden/graph.json`` is appended to, never changed.

DSBUILD_UPDATE_GOLDEN=1 adds the forms that it lacks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "graph.json"
KNOWN: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
STAGES = [{"from": 0, "weights": {"a": 0.7, "b": 0.3}}, {"from": 1000000, "weights": {"b": 1, "c": 2}}]
FORMS: dict[str, dict[str, Any]] = {
    "weights": {},
    "weights of one source": {"mixture.train.weights": {"b": 3}},
    "two mixtures": {"mixture.valid.weights": {"a": 1}, "source.a.split": {"train": 0.999, "valid": 0.001}},
    "stages": {"mixture.train": {"stages": STAGES}},
    "stages by tokens, to the first end": {"mixture.train": {"stages": STAGES, "by": "tokens", "until": "first"}},
    "weights by tokens": {"mixture.train.by": "tokens"},
    "epochs and caps": {"mixture.train.until": {"epochs": 3}, "mixture.train.max_epochs": {"a": 1.5, "c": 2}},
    "fit": {"examples": {"length": 64, "pack": "fit", "mask": "document"}},
    "fit, cut": {"examples": {"length": 64, "pack": "fit", "overlong": "cut"}},
    "fit, dropped": {"examples": {"length": 64, "pack": "fit", "overlong": "drop"}},
    "each": {"examples": {"length": 64, "pack": "none", "overlong": "drop"}},
    "none, cut": {"examples": {"length": 64, "pack": "none", "overlong": "cut"}},
    "columns and shapes": {
        "examples": {
            "length": 64,
            "pack": "none",
            "columns": ["y", "input_ids", "x"],
            "pad": {"y": 9, "input_ids": 64},
        },
        "mixture.train.weights": {"b": 1},
    },
    "blocks": {"examples.shuffle": {"block": 1024, "window": 64}},
    "eras": {"examples.shuffle": {"era": 1000000}},
    "no shuffle": {"examples.shuffle": "none"},
    "counts": {"source.a.split": {"train": 0.9, "valid": 1000}},
    "counts, all": {"source.a.split": {"train": 50, "valid": 1000}},
    "packed, of counts, dealt": {
        "source.a.split": {"train": 0.9, "valid": 1000},
        "source.a.order": {"interleave": 64},
        "examples.pack": "fit",
    },
    "padded": {"tokenizer": {"file": "bytes", "eos": "<eos>", "pad": "<pad>"}, "examples.pack": "fit"},
}


@pytest.mark.parametrize("name", FORMS)
def test_golden(made: Any, name: str) -> None:
    graph = made(FORMS[name]).graph
    found = {
        "hash": graph.output.hex,
        "hashed": [
            json.loads(d.canonical)
            for d in graph.derivations.values()
            if d.kind not in ("source", "handler", "records")
        ],
    }
    if os.environ.get("DSBUILD_UPDATE_GOLDEN") == "1" and name not in KNOWN:
        KNOWN[name] = found
        GOLDEN.write_text(json.dumps(KNOWN, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    assert found == KNOWN[name]


def test_every_golden_form_is_tested() -> None:
    assert set(KNOWN) == set(FORMS)
