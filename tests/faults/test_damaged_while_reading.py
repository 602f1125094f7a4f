"""Damage that a loader meets is told in its place, with source, part and record, and is never served or a crash."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dsbuild.errors import BuildError, CorruptError, DsbuildError, NotFoundError
from dsbuild.load import Dataset
from dsbuild.load import loader as loading
from dsbuild.schema import Field
from dsbuild.store import Store, objects

IDS = Field(name="input_ids", dtype="uint16", shape=(None,))
LABELS = Field(name="labels", dtype="int32", shape=(None,))
AUDIO = Field(name="audio", dtype="float32", shape=(None,))
PARTS, ROWS, LENGTH = 4, 50, 64
PACKS = ("concat", "fit", "none")
OPTIONS: list[dict[str, Any]] = [{"prefetch": 0}, {"prefetch": 2}, {"prefetch": 4, "threads": 3}]


def tokens(part: int, seed: int = 0) -> list[list[int]]:
    """Records of 65 tokens, at most; 50 of them are more than a block, and mapped."""
    draw = np.random.default_rng(part + 100 * seed)
    return [draw.integers(1, 60_000, 65 if row % 3 else 5 + row).tolist() for row in range(ROWS * 30)]


def view(shelf: Any, pack: str = "concat", *, split: bool = False, seed: int = 0) -> Any:
    made = [tokens(p, seed) for p in range(PARTS)]
    at = shelf.records([{"input_ids": (IDS, rows), "labels": (LABELS, rows)} for rows in made])
    chosen = [[row for row in range(len(rows)) if row % 7] for rows in made]
    if split:
        at = shelf.split(at, chosen)
    if pack == "fit":
        at = shelf.pack(at, [[[row] for row in rows] for rows in chosen], LENGTH)
    return at


def opened(shelf: Any, tmp_path: Path, *views: Any, pack: str = "concat", **examples: Any) -> Dataset:
    """The dataset of ``views``, in a store of the test's own, that it may damage."""
    made = shelf.dataset(*views, length=LENGTH, pack=pack, **examples)
    return elsewhere(made, tmp_path)


def elsewhere(made: Dataset, tmp_path: Path) -> Dataset:
    from dsbuild.load import open_dataset

    root = tmp_path / "store"
    for path in [made.store.root / "format", *(made.store.root / d for d in ("derivations", "manifests"))]:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, root / path.name) if root.mkdir(
            exist_ok=True
        ) is None else None
    for source in made.sources:
        for manifest in (source.records, source.selection, source.packing):
            for part in range(len(manifest or ())):
                content = manifest.content(part)
                place = Path(made.store.layout.object(content)).relative_to(made.store.root)
                shutil.copytree(made.store.root / place, root / place, dirs_exist_ok=True)
    return open_dataset(made.digest.hex, store=root)
