"""Packs and count splits from a recipe to the store: what is built, what a change costs, crashes, worker counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild.digest import Digest
from dsbuild.errors import BuildError
from dsbuild.order import split
from dsbuild.store import collect, verify

HEAD = """
dsbuild = 1
name = "nodes"
seed = 3
[tokenizer]
file = "bytes"
eos = "<eos>"
[source.chat]
files = "data/*.jsonl"
part_bytes = 16384
handlers = [{ use = "tokenize" }]
"""
SPLIT = "split = { valid = 25, test = 1, train = 1.0 }\n"
MIXTURES = """
[mixture.train]
weights = { chat = 1 }
[mixture.valid]
weights = { chat = 1 }
[examples]
length = 96
"""
FIT = 'pack = "fit"\nmask = "document"\n'
RECIPE = HEAD + SPLIT + MIXTURES + FIT
FILES, ROWS = 6, 40
KINDS = ("split", "pack")


def text(file: int, row: int) -> str:
    return f"{file}/{row} " + "word " * ((file * 7 + row * 3) % 17)


def fill(project: Any) -> Any:
    project.write("recipe.toml", RECIPE)
    for file in range(FILES):
        project.jsonl(f"data/{file}.jsonl", [{"text": text(file, row)} for row in range(ROWS)])
    return project


def node(project: Any, kind: str, label: str) -> Digest:
    graph = project.prepare().instance.graph
    return next(d for d, n in graph.derivations.items() if n.kind == kind and label in graph.label(d))


def parts(project: Any, digest: Digest, column: str) -> list[list[list[int]]]:
    """Each value of a stored column of each part, as a list."""
    store = project.store
    manifest = store.manifest(digest)
    found = []
    for part in range(len(manifest)):
        values, offsets = store.object(manifest.content(part)).column(column)
        if offsets is None:
            found.append([[v] for v in values.tolist()])
        else:
            found.append([values[a:b].tolist() for a, b in pairwise(offsets.tolist())])
    return found


def built(report: Any) -> dict[str, int]:
    """Parts that were made, by label and kind."""
    return {f"{n.label} {n.kind}": n.built for n in report.nodes}


def test_nodes_of_a_recipe(project: Any) -> None:
    fill(project)
    report = project.build()
    records = node(project, "records", "chat")
    keys = np.array([k for part in parts(project, records, "@key") for [k] in part], np.uint64)
    lengths = [[len(ids) for ids in part] for part in parts(project, records, "input_ids")]
    whole = split.ranges({"valid": 25, "test": 1, "train": Fraction(1)}, keys)
    sizes = {}
    for name in ("train", "valid"):
        rows = parts(project, node(project, "split", f"/{name}"), "row")
        flat = [part * ROWS + row for part, chosen in enumerate(rows) for [row] in chosen]
        assert flat == np.flatnonzero(whole[name].choose(keys)).tolist()
        sizes[name] = len(flat)
        bins = parts(project, node(project, "pack", f"/{name}"), "row")
        for part, chosen in enumerate(rows):
            assert sorted(r for b in bins[part] for r in b) == [row for [row] in chosen]
            assert all(sum(lengths[part][r] for r in b) <= 97 and b == sorted(b) for b in bins[part])
        assert len(project.open(name)) == sum(map(len, bins))
    assert sizes == {"train": FILES * ROWS - 26, "valid": 25}
    assert sorted(n.kind for n in report.nodes) == ["pack", "pack", "records", "split", "split"]
    assert project.build().built == 0
    assert not verify(project.store).damage


def test_batches_have_each_record_whole(project: Any) -> None:
    fill(project)
    project.build()
    dataset = project.open("valid")
    batch = dataset.examples(0, len(dataset))
    found = []
    for row in range(len(dataset)):
        for number in range(1, int(batch["segment_ids"][row].max()) + 1):
            inside = batch["segment_ids"][row] == number
            found.append(bytes(int(t) for t in batch["input_ids"][row][inside] if t < 256).decode())
    rows = parts(project, node(project, "split", "/valid"), "row")
    expected = [text(part, row) for part, chosen in enumerate(rows) for [row] in chosen]
    assert sorted(found) == sorted(expected)


def test_one_file_changed(project: Any) -> None:
    """The changed file's part of every node, and of the counts only what the moved bounds pass."""
    fill(project)
    project.write("recipe.toml", RECIPE.replace(SPLIT, "split = { valid = 0.25, train = 0.75 }\n"))
    project.build()
    project.jsonl("data/3.jsonl", [{"text": "new " + text(3, row)} for row in range(ROWS)])
    assert set(built(project.build(update=())).values()) == {1}
    project.write("recipe.toml", RECIPE)
    project.build()
    project.jsonl("data/3.jsonl", [{"text": "newer " + text(3, row)} for row in range(ROWS)])
    report = project.build(update=())
    made = built(report)
    assert made["source.chat records"] == 1
    for name in ("train", "valid"):
        selections, packs = (next(n for n in report.nodes if n.kind == k and f"/{name}" in n.label) for k in KINDS)
        assert 1 <= packs.built <= selections.built <= FILES


def test_what_a_change_of_packing_costs(project: Any) -> None:
    fill(project)
    project.build()
    project.write("recipe.toml", RECIPE.replace("length = 96", "length = 120"))
    report = project.build()
    assert {n.kind for n in report.nodes if n.built} == {"pack"}
    project.write("recipe.toml", RECIPE.replace(FIT, ""))  # concat needs no index
    report = project.build()
    assert report.built == 0
    assert {n.kind for n in report.nodes} == {"records", "split"}


def test_long_records(project: Any) -> None:
    fill(project)
    project.jsonl("data/4.jsonl", [{"text": "ok"}, {"text": "x" * 500}])
    project.write("recipe.toml", HEAD + "[mixture.train]\nweights = { chat = 1 }\n[examples]\nlength = 96\n" + FIT)
    with pytest.raises(BuildError) as caught:
        project.build()
    assert caught.value.kind == "record-too-long"
    assert "data/4.jsonl, record 1 has 501 tokens, above length + 1 = 97" in str(caught.value)
    recipe = project.recipe.read_text()
    for overlong, fewer in (("cut", 0), ("drop", 1)):
        project.write("recipe.toml", recipe + f'overlong = "{overlong}"\n')
        assert [n.built for n in project.build().nodes if n.kind == "records"] == [0]
        bins = parts(project, node(project, "pack", "chat"), "row")
        assert sum(len(b) for part in bins for b in part) == (FILES - 1) * ROWS + 2 - fewer


def test_too_few_records(project: Any) -> None:
    fill(project)
    project.write("recipe.toml", RECIPE.replace("valid = 25", "valid = 999"))
    with pytest.raises(BuildError, match=r"source\.chat: .* takes 1000 records of 240") as caught:
        project.build()
    assert caught.value.kind == "too-few-records"
    assert len(caught.value.diagnostics) == 1  # told once, not for each split
    project.write("recipe.toml", RECIPE)
    assert all(n.built == 0 for n in project.build().nodes if n.kind == "records")


def test_worker_counts(project: Any, make_project: Callable[[], Any]) -> None:
    fill(project).build(jobs=1)
    twin = fill(make_project())
    twin.build(jobs=3)
    assert project.contents() == twin.contents()
    assert len(project.contents()) == 5


def test_killed_and_resumed(project: Any, make_project: Callable[[], Any]) -> None:
    """Killed at several moments, the command line ends with the same contents, and gc in between harms nothing."""
    fill(project)
    command = [sys.executable, "-c", "from dsbuild.cli import main; main()", "build", str(project.recipe)]
    command += ["--store", str(project.root / "store"), "--jobs", "2"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DSBUILD")}
    for after in (0, 4, 9):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 20
        while realised(project.root) <= after and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not verify(project.store).damage
        collect(project.store)
    before = realised(project.root)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert realised(project.root) >= before > 9
    twin = fill(make_project())
    twin.build()
    assert project.contents() == twin.contents()
    assert project.build().built == 0


def realised(root: Path) -> int:
    """How many parts are done in the store."""
    return len(list((root / "store" / "realisations").rglob("*.json")))
