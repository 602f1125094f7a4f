"""Bad input through the command line: the documented exit code, a message with the way out, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

RECIPE = """dsbuild = 1
name = "cli"
[tokenizer]
file = "bytes"
[source.web]
files = "data/*.jsonl"
handlers = [{ use = "tokenize" }]
[mixture.train]
weights = { web = 1 }
[examples]
length = 16
"""


class Run:
    """One run of the command line as a process of its own."""

    def __init__(self, *arguments: object, cwd: Path | None = None, **environment: str) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dsbuild", *map(str, arguments)],
            cwd=cwd,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        assert "Traceback" not in self.err, self.err


@pytest.fixture
def ready(project: Any) -> Any:
    project.write("recipe.toml", RECIPE)
    project.jsonl("data/a.jsonl", [{"text": f"line {n}"} for n in range(50)])
    return project


def build(project: Any, *options: object) -> Run:
    return Run("build", project.recipe, "--store", project.root / "store", *options)


@pytest.mark.parametrize(
    ("old", "new", "kind", "said"),
    [
        ("dsbuild = 1", "dsbuild = 9", "bad-value", "dsbuild"),
        ("name =", "nam =", "unknown-key", "did you mean 'name'?"),
        ("[tokenizer]", "[tokeniser]", "unknown-key", "tokenizer"),
        ("files =", "file =", "unknown-key", "files"),
        ('use = "tokenize"', 'use = "tokenise"', "unknown-handler", "did you mean 'tokenize'?"),
        ('use = "tokenize"', 'use = "tokenize", colum = "x"', "bad-value", "column"),
        ("web = 1", "wbe = 1", "unknown-node", "did you mean 'web'?"),
        ("length = 16", "length = 0", "bad-value", "length"),
        ("length = 16", 'length = 16\npack = "fits"', "bad-value", "did you mean 'fit'?"),
        ("weights", 'by = "words"\nweights', "bad-value", "words"),
        ("data/*.jsonl", "data/*.jsonx", "no-match", "no file matches"),
        ("data/*.jsonl", "gone/a.jsonl", "no-such-file", "gone/a.jsonl"),
        ('"bytes"', '"gone.json"', "no-such-file", "gone.json"),
        ('"bytes"', '"recipe.toml"', "bad-tokenizer", "recipe.toml"),
        ('file = "bytes"', 'file = "bytes"\neos = "</s>"', "bad-tokenizer", "</s>"),
        ("[examples]", "[examples", "bad-toml", "recipe.toml:"),
        ('{ use = "tokenize" }', '{ use = "clean.py:go" }', "no-such-file", "clean.py"),
        ('{ use = "tokenize" }', '{ use = "keep", where = "len(text" }', "bad-value", "keep"),
        ('{ use = "tokenize" }', '{ use = "drop", columns = ["a"] }', "missing-column", "tokenize"),
    ],
)
def test_mistakes_of_recipes(ready: Any, old: str, new: str, kind: str, said: str) -> None:
    assert old in RECIPE
    ready.write("recipe.toml", RECIPE.replace(old, new, 1))
    for command in ("check", "build"):
        run = Run(command, ready.recipe, *(["--store", ready.root / "store"] if command == "build" else []))
        assert run.code == 3, run.err
        assert f"[{kind}]" in run.err
        assert said in run.err
        assert run.out == ""
    assert not (ready.root / "recipe.lock").exists()


def test_all_mistakes_in_one_run(ready: Any) -> None:
    ready.write(
        "recipe.toml",
        RECIPE.replace("name =", "nam =").replace("length = 16", 'length = "x"').replace("web = 1", "wbe = 1"),
    )
    run = Run("check", ready.recipe, "--json")
    found = json.loads(run.out)
    assert run.code == found["exit_code"] == 3
    assert {e["kind"] for e in found["errors"]} >= {"unknown-key", "bad-type", "unknown-node"}
    assert all(e["where"]["line"] for e in found["errors"])


def test_no_recipe(tmp_path: Path) -> None:
    assert Run("build", tmp_path / "gone.toml").code == 4
    (tmp_path / "d.toml").mkdir()
    assert Run("build", tmp_path / "d.toml").code == 3


def test_usage() -> None:
    run = Run("biuld")
    assert run.code == 2
    assert "Did you mean 'build'?" in run.err
    assert Run("build").code == 2
    assert Run("peek", "x", "--size", "0").code == 2


def test_a_bad_record_names_file_and_line(ready: Any) -> None:
    ready.write("data/b.jsonl", '{"text": "ok"}\n{"text": 3}\n')
    ready.write("data/c.jsonl", '{"text": "ok"}\n\nnot json\n')
    ready.write("recipe.toml", RECIPE.replace("handlers", "part_bytes = 4096\nhandlers"))
    run = build(ready)
    assert run.code == 1
    assert "data/b.jsonl" in run.err
    assert "line 2" in run.err
    assert "data/c.jsonl" in run.err
    assert "line 3" in run.err
    assert run.out == ""
    ready.write("recipe.toml", RECIPE.replace("handlers", 'part_bytes = 4096\non_error = "skip"\nhandlers'))
    run = build(ready, "--json")
    assert run.code == 0, run.err
    (node,) = [n for n in json.loads(run.out)["nodes"] if n["kind"] == "records"]
    assert (node["records"], node["skipped"]) == (52, 2)
    again = json.loads(Run("show", ready.recipe, "--store", ready.root / "store", "--json").out)
    (shown,) = [n for n in again["nodes"] if n["kind"] == "records"]
    assert shown["skipped"] == 2
    places = [(s["place"], s["reason"]) for s in shown["skipped_records"]]
    assert [p for p, _ in places] == ["data/b.jsonl: line 2", "data/c.jsonl: line 3"]
    assert "int" in places[0][1]


def test_changed_world(ready: Any) -> None:
    assert build(ready).code == 0
    ready.jsonl("data/b.jsonl", [{"text": "new"}])
    ready.jsonl("data/a.jsonl", [{"text": "changed"}])
    for run in (build(ready), Run("lock", ready.recipe, "--check")):
        assert run.code == 7
        assert "data/a.jsonl" in run.err
        assert "data/b.jsonl" in run.err
        assert "--update" in run.err
    (ready.root / "data/a.jsonl").unlink()
    assert "removed" in build(ready).err
    before = (ready.root / "recipe.lock").read_bytes()
    assert build(ready, "--update", "web").code == 0
    assert (ready.root / "recipe.lock").read_bytes() != before
    assert Run("lock", ready.recipe, "--check").code == 0
    assert build(ready, "--update", "nobody").code == 3


def test_locked_makes_no_lock(ready: Any) -> None:
    run = build(ready, "--locked")
    assert run.code == 7
    assert not (ready.root / "recipe.lock").exists()


def test_damaged_lock(ready: Any) -> None:
    assert build(ready).code == 0
    path = ready.root / "recipe.lock"
    path.write_text(path.read_text().replace('"size":', '"sise":', 1))
    run = build(ready)
    assert run.code == 7
    assert "recipe.lock" in run.err


def test_unknown_hashes(ready: Any) -> None:
    assert build(ready).code == 0
    store = ("--store", ready.root / "store")
    assert Run("peek", "0123456789abcdef", *store).code == 4
    assert Run("peek", "xyz", *store).code == 4
    assert Run("show", "0" * 64, *store).code == 4
    assert Run("peek", ready.recipe, "--step", "999999", *store).code == 4
    assert Run("peek", ready.recipe, "--split", "test", *store).code == 4
    assert Run("list", "--store", ready.root / "nowhere").code == 4


def test_store_in_a_file(ready: Any) -> None:
    ready.write("store", "not a directory")
    assert build(ready).code == 6


def test_newer_store(ready: Any) -> None:
    assert build(ready).code == 0
    path = ready.root / "store" / "format"
    path.chmod(0o644)
    path.write_text("dsbuild store 2\n")
    run = build(ready)
    assert run.code == 6
    assert "store-format" in run.err


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root to mount a tmpfs")
def test_full_disk(ready: Any, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("mounts are not allowed here")
    try:
        for n in range(40):
            ready.jsonl(f"data/{n:02}.jsonl", [{"text": f"{n} {k} " + "y" * 200} for k in range(400)])
        run = Run("build", ready.recipe, "--store", small / "store")
        assert run.code == 6, run.err
        assert "disk-full" in run.err
        # the worker that met the full disk cleans up; the other one may be stopped while it writes
        assert len(list((small / "store" / "tmp").iterdir())) <= 1
        assert Run("gc", "--store", small / "store").code == 0
        assert not list((small / "store" / "tmp").iterdir())
        assert Run("verify", "--store", small / "store").code == 0
        subprocess.run(["mount", "-o", "remount,size=200m", small], check=True)
        assert Run("build", ready.recipe, "--store", small / "store").code == 0
        assert Run("verify", "--store", small / "store").code == 0
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root to mount read-only")
def test_read_only_store(ready: Any, tmp_path: Path) -> None:
    assert build(ready).code == 0
    if subprocess.run(["mount", "--bind", ready.root / "store", ready.root / "store"], capture_output=True).returncode:
        pytest.skip("mounts are not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", ready.root / "store"], check=True)
        assert Run("peek", ready.recipe, "--store", ready.root / "store").code == 0
        ready.jsonl("data/z.jsonl", [{"text": "more"}])
        run = build(ready, "--update")
        assert run.code == 6
        assert "[read-only]" in run.err
    finally:
        subprocess.run(["umount", ready.root / "store"], check=True)


def test_two_builds_at_once(ready: Any) -> None:
    for n in range(30):
        ready.jsonl(f"data/{n:02}.jsonl", [{"text": f"{n} {k} " + "y" * 100} for k in range(200)])
    runs: list[Run] = []
    threads = [threading.Thread(target=lambda: runs.append(build(ready))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.code for r in runs] == [0, 0, 0], [r.err for r in runs]
    assert len({r.out for r in runs}) == 1
    assert Run("verify", "--store", ready.root / "store").code == 0


def test_a_file_that_changes_under_the_build(ready: Any) -> None:
    """The content that is stored is that of the lock, or nothing is stored."""
    from dsbuild.build import InlineExecutor, failure
    from dsbuild.build import build as build_graph

    store = ready.store
    session = ready.prepare()
    path = ready.root / "data/a.jsonl"
    os.utime(path, ns=(1, 1))
    report = build_graph(session.instance.graph, store, session.files, InlineExecutor(), session.work(store))
    error = failure(report)
    assert error is not None
    assert error.kind == "source-changed"
    assert store.manifest(next(iter(session.instance.outputs.values()))) is None


def test_non_deterministic_python(ready: Any) -> None:
    ready.write("clean.py", "import random\n\ndef go(record):\n    return {**record, 'text': str(random.random())}\n")
    ready.write("recipe.toml", RECIPE.replace('{ use = "tokenize" }', '{ use = "clean.py:go" }, { use = "tokenize" }'))
    run = build(ready, "--check")
    assert run.code == 8, run.err
    assert "record 0" in run.err


@pytest.mark.parametrize(
    "body",
    [
        "open('/tmp/x-dsbuild', 'w')",
        "open(__import__('os').path.expanduser('~/.bashrc'))",
        "__import__('subprocess').run(['true'])",
        "__import__('socket').create_connection(('127.0.0.1', 9), 1)",
    ],
)
def test_impure_python(ready: Any, body: str) -> None:
    ready.write("clean.py", f"def go(record):\n    {body}\n    return record\n")
    ready.write("recipe.toml", RECIPE.replace('{ use = "tokenize" }', '{ use = "clean.py:go" }, { use = "tokenize" }'))
    run = build(ready)
    assert run.code == 1, run.err
    assert "[impure]" in run.err


def test_user_python_that_raises(ready: Any) -> None:
    ready.write("clean.py", "def go(record):\n    # why\n    return record['texd']\n")
    ready.write("recipe.toml", RECIPE.replace('{ use = "tokenize" }', '{ use = "clean.py:go" }, { use = "tokenize" }'))
    run = build(ready)
    assert run.code == 1
    assert "clean.py:3" in run.err
    assert "KeyError" in run.err
    assert "data/a.jsonl" in run.err


def test_json_everywhere(ready: Any) -> None:
    store = ("--store", ready.root / "store")
    assert json.loads(Run("build", ready.recipe, *store, "--dry-run", "--json").out)["nodes"]
    found = json.loads(Run("build", ready.recipe, *store, "--json").out)
    assert json.loads(Run("hash", ready.recipe, "--json").out)["hash"] == found["hash"]
    assert json.loads(Run("check", ready.recipe, "--json").out)["hash"] == found["hash"]
    assert json.loads(Run("lock", ready.recipe, "--json").out)["hash"] == found["hash"]
    assert json.loads(Run("list", *store, "--json").out)[0]["hash"] == found["hash"]
    assert json.loads(Run("show", found["hash"][:10], *store, "--json").out)["kind"] == "dataset"
    assert json.loads(Run("peek", found["hash"], *store, "--json").out)["examples"]
    assert json.loads(Run("verify", *store, "--json").out)["damage"] == []
    assert json.loads(Run("gc", *store, "--dry-run", "--json").out)["freed"]["objects"] == 0
    assert json.loads(Run("root", "list", *store, "--json").out)[0]["name"] == "cli"


def test_derivation_is_what_is_hashed(ready: Any) -> None:
    from dsbuild.digest import Domain, of_bytes

    found = build(ready).out.strip()
    shown = Run("show", found, "--derivation", "--store", ready.root / "store").out
    assert of_bytes(Domain.DERIVATION, shown.encode()).hex == found


def test_damage_is_found_and_mended(ready: Any) -> None:
    assert build(ready).code == 0
    path = next((ready.root / "store/objects").rglob("values/c.0"))
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    path.write_bytes(bytes(data))
    run = Run("verify", "--store", ready.root / "store")
    assert run.code == 5
    assert "values" in run.err
    assert Run("peek", ready.recipe, "--store", ready.root / "store").code == 5
    shutil.rmtree(path.parents[4])
    assert build(ready).code == 0
    assert Run("verify", "--store", ready.root / "store").code == 0


def test_output_to_a_closed_pipe(ready: Any) -> None:
    assert build(ready).code == 0
    command = f"{sys.executable} -P -m dsbuild list --store {ready.root / 'store'} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
