"""Golden: the hash of every recipe in ``recipes/``, the content of its nodes, and its first batches.

DSBUILD_UPDATE_GOLDEN=1 writes them anew; a change here is a change of identity or order, and needs a reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dsbuild.build import InlineExecutor, build, contents_of, prepare
from dsbuild.digest import Domain, of_bytes
from dsbuild.load import open_dataset
from dsbuild.store import Store

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "recipes.json"
RECIPES = sorted(p.name for p in (ROOT / "recipes").glob("*.toml"))


def made(recipe: Path, directory: Path) -> dict[str, Any]:
    store = Store.open(directory / "store", create=True)
    session = prepare(recipe, store=store, locked=True)
    report = build(session.instance.graph, store, session.files, InlineExecutor(), session.work(store))
    assert not report.errors
    found: dict[str, Any] = {"hash": report.output.hex, "nodes": {}, "batches": {}}
    for node in report.nodes:
        manifest = store.manifest(node.digest)
        assert manifest is not None
        found["nodes"][node.label] = [node.digest.hex, *(c.hex for c in contents_of(manifest))]
    for split in session.recipe.mixtures:
        dataset = open_dataset(report.output.hex, split=split, store=store)
        batches = [dataset.batch(step, 4) for step in (0, dataset.steps(4) - 1)]
        data = b"".join(b[n].astype("<i4").tobytes() for b in batches for n in sorted(b))
        found["batches"][split] = {
            "examples": len(dataset),
            "first": batches[0]["input_ids"][0, :16].tolist(),
            "first_and_last": of_bytes(Domain.FILE, data).hex,
        }
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_recipe(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    found = made(tmp_path / "recipes" / name, tmp_path)
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("DSBUILD_UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(golden | {name: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == golden[name]


def test_data_is_what_the_script_makes(tmp_path: Path) -> None:
    code = "import sys, pathlib; sys.path.insert(0, sys.argv[1])\nimport make_data\n"
    code += "make_data.main(pathlib.Path(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", code, str(ROOT / "recipes"), str(tmp_path / "data")], check=True)
    for path in (ROOT / "recipes" / "data").iterdir():
        assert (tmp_path / "data" / path.name).read_bytes() == path.read_bytes()
