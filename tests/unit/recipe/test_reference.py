"""The reference page: every block of TOML on it is read, and every key and choice stands on it."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import tomli

from dsbuild.errors import RecipeError
from dsbuild.recipe import encode_lock, load_recipe, read_lock
from dsbuild.recipe.mixture import MIXTURE_KEYS
from dsbuild.recipe.nodes import EXAMPLES_KEYS, TOKENIZER_KEYS
from dsbuild.recipe.parse import TOP_KEYS
from dsbuild.recipe.source import SOURCE_KEYS

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "recipe.md").read_text("utf-8")
BLOCKS = re.findall(r"```toml *([^\n]*)\n(.*?)```", PAGE, re.DOTALL)


def whole(tree: dict[str, Any]) -> dict[str, Any]:
    """A recipe of the tables of a block: what it lacks is added in its simplest form."""
    if "dsbuild" in tree:
        return tree
    source = tree.get("source", {"web": {"files": "web/*.jsonl"}})
    first = next(iter(source))
    simple = {"dsbuild": 1, "name": "block", "mixture": {"train": {"weights": {first: 1}}}, "examples": {"length": 8}}
    return {**simple, "source": source, **tree}


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_blocks(tmp_path: Path, block: int) -> None:
    said, text = BLOCKS[block]
    path = tmp_path / "block.json"
    numbers = tomli.loads(text, parse_float=Decimal)
    path.write_text(json.dumps(whole(numbers), default=lambda d: float(d)), "utf-8")
    if not said:
        load_recipe(path)
        return
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert [d.kind for d in caught.value.diagnostics] == [said.removeprefix("refused ")]


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 10


@pytest.mark.parametrize("key", sorted({*TOP_KEYS, *TOKENIZER_KEYS, *SOURCE_KEYS, *MIXTURE_KEYS, *EXAMPLES_KEYS}))
def test_every_key_is_documented(key: str) -> None:
    assert re.search(rf"`{key}\b", PAGE)


def test_the_lock_on_the_page(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "page.lock").write_text(text, "utf-8")
    assert encode_lock(read_lock(tmp_path / "page.lock")).decode() == text
