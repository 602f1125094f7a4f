"""Same recipe, same lock: same hash, contents and batches, wherever and however it is built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECIPE = """
dsbuild = 1
name = "same"
seed = 5
[tokenizer]
file = "bytes"
eos = "<eos>"
[source.docs]
files = "data/*.jsonl"
part_bytes = 4096
handlers = [{ use = "rules/clean.py:clean" }, { use = "keep", where = "n != 3" }, { use = "tokenize" }]
split = { train = 0.7, valid = 0.3 }
[source.notes]
files = "notes.txt"
read = { record = "line" }
order = { interleave = 3 }
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { docs = 0.7, notes = 0.3 }
[mixture.valid]
weights = { docs = 1 }
[examples]
length = 32
mask = "document"
"""
CLEAN = """from rules.words import words

def clean(record):
    return {"text": " ".join(sorted(set(words(record["text"])))), "n": record["n"]}
"""
SCRIPT = """
import json, sys
from dsbuild import open_dataset
from dsbuild.digest import Digest
from dsbuild.store import Store
found = {}
for split in ("train", "valid"):
    d = open_dataset(sys.argv[1], split=split, store=sys.argv[2])
    found[split] = [len(d), [{k: v.tolist() for k, v in d.batch(s, 4).items()} for s in range(3)]]
store = Store.open(sys.argv[2])
found["contents"] = sorted(p.name for p in (store.root / "objects").glob("??/*"))
print(json.dumps(found))
"""


def fill(root: Path) -> Path:
    (root / "data").mkdir(parents=True)
    (root / "rules").mkdir()
    (root / "rules" / "clean.py").write_text(CLEAN)
    (root / "rules" / "words.py").write_text("def words(text):\n    return text.split()\n")
    (root / "recipe.toml").write_text(RECIPE)
    for n in range(12):
        rows = [{"text": f"{n} {k} " + " ".join(f"w{(n * k + i) % 37}" for i in range(20)), "n": k} for k in range(40)]
        (root / "data" / f"{n:02}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (root / "notes.txt").write_text("".join(f"note {n}: {'la ' * (n % 9)}\n" for n in range(200)))
    return root / "recipe.toml"


def run(python: str, recipe: Path, store: Path, environment: dict[str, str], jobs: int) -> tuple[str, Any]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DSBUILD")} | environment
    code = "from dsbuild.cli import main; main()"
    built = subprocess.run(
        [python, "-P", "-c", code, "build", str(recipe), "--store", str(store), "--jobs", str(jobs)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    read = subprocess.run(
        [python, "-P", "-c", SCRIPT, str(recipe), str(store)], env=env, capture_output=True, text=True, check=True
    )
    return built.stdout.strip(), json.loads(read.stdout)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, Any]]:
    root = tmp_path_factory.mktemp("reference")
    recipe = fill(root)
    return root, run(sys.executable, recipe, root / "store", {}, 2)


@pytest.mark.parametrize(("seed", "jobs"), [("0", 1), ("1", 2), ("2", 4)])
def test_hash_seeds_workers_and_directories(
    reference: tuple[Path, tuple[str, Any]], tmp_path: Path, seed: str, jobs: int
) -> None:
    recipe = fill(tmp_path / "elsewhere" / seed)
    found = run(sys.executable, recipe, tmp_path / "store", {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"}, jobs)
    assert found == reference[1]


def test_another_python(reference: tuple[Path, tuple[str, Any]], tmp_path: Path) -> None:
    """Python 3.12 and later, where one with dsbuild's libraries is at hand (DSBUILD_OTHER_PYTHON)."""
    python = os.environ.get("DSBUILD_OTHER_PYTHON")
    if not python:
        pytest.skip("DSBUILD_OTHER_PYTHON names no other Python")
    recipe = fill(tmp_path / "there")
    shutil.copy(reference[0] / "recipe.lock", tmp_path / "there" / "recipe.lock")
    assert run(python, recipe, tmp_path / "store", {}, 2) == reference[1]


def test_json_recipe_has_the_same_hash(reference: tuple[Path, tuple[str, Any]], tmp_path: Path) -> None:
    import tomli

    recipe = fill(tmp_path)
    tree = tomli.loads(recipe.read_text())
    (tmp_path / "twin.json").write_text(json.dumps(tree))
    from dsbuild.build import prepare

    assert prepare(tmp_path / "twin.json").digest.hex == reference[1][0]


def test_names_and_order_of_tables_do_not_matter(project: Any) -> None:
    project.jsonl("a.jsonl", [{"text": f"a {n}"} for n in range(50)])
    project.jsonl("b.jsonl", [{"text": f"b {n}"} for n in range(50)])
    head = 'dsbuild = 1\nname = "n"\n[tokenizer]\nfile = "bytes"\n'
    tail = "[examples]\nlength = 8\n"
    one = '[source.{0}]\nfiles = "{1}.jsonl"\nhandlers = [{{ use = "tokenize" }}]\n'
    project.write(
        "recipe.toml",
        head + one.format("x", "a") + one.format("y", "b") + "[mixture.train]\nweights = { x = 7, y = 3 }\n" + tail,
    )
    first = project.build().output
    batches = [project.open().batch(s, 4)["input_ids"].tolist() for s in range(3)]
    (project.root / "recipe.lock").unlink()
    project.write(
        "recipe.toml",
        head
        + "# turned round\n"
        + one.format("two", "b")
        + one.format("one", "a")
        + tail
        + "[mixture.train]\nweights = { two = 0.3, one = 0.7 }\n",
    )
    assert project.build().output == first
    assert [project.open().batch(s, 4)["input_ids"].tolist() for s in range(3)] == batches
