"""``kill -9`` at random moments of a build: what was published stays, the next build gives the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RECIPE = """
dsbuild = 1
name = "killed"
[tokenizer]
file = "bytes"
eos = "<eos>"
[source.web]
files = "data/*.jsonl"
part_bytes = 8192
handlers = [{ use = "keep", where = "len(text) > 3" }, { use = "tokenize" }]
split = { train = 0.8, valid = 0.2 }
[mixture.train]
weights = { web = 1 }
[mixture.valid]
weights = { web = 1 }
[examples]
length = 64
"""
KILLS = int(os.environ.get("DSBUILD_KILLS", "5"))


def fill(project: Any) -> None:
    project.write("recipe.toml", RECIPE)
    for n in range(60):
        rows = [{"text": f"file {n} row {k} " + "x" * ((n * k) % 200)} for k in range(60)]
        project.jsonl(f"data/{n:02}.jsonl", rows)


def start(root: Path, store: Path) -> subprocess.Popen[bytes]:
    code = "from dsbuild.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, "build", str(root / "recipe.toml"), "--store", str(store), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_killed_and_resumed(project: Any) -> None:
    fill(project)
    started = time.monotonic()
    whole = start(project.root, project.root / "whole")
    out, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err.decode()
    taken = time.monotonic() - started
    digest = out.decode().strip().splitlines()[-1]
    rng = random.Random(20261121)
    for _ in range(KILLS):
        process = start(project.root, project.root / "store")
        time.sleep(rng.uniform(0.2, max(taken, 0.4)))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    last = start(project.root, project.root / "store")
    out, err = last.communicate(timeout=120)
    assert last.returncode == 0, err.decode()
    assert out.decode().strip().splitlines()[-1] == digest
    from dsbuild.store import Store, collect, verify

    resumed, undisturbed = (Store.open(project.root / n) for n in ("store", "whole"))
    for derivation in project.prepare().instance.graph.derivations:
        a, b = resumed.manifest(derivation), undisturbed.manifest(derivation)
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert (a.contents == b.contents).all()
    assert not verify(resumed).damage
    collect(resumed)
    assert not verify(resumed).damage
    assert not list((project.root / "store" / "tmp").iterdir())


def test_a_killed_worker_costs_one_part(project: Any) -> None:
    """Workers that are killed are replaced; the build ends as if nothing had happened."""
    import psutil

    fill(project)
    process = start(project.root, project.root / "store")
    killed = 0
    me = psutil.Process(process.pid)
    deadline = time.monotonic() + 60
    while process.poll() is None and killed < 2 and time.monotonic() < deadline:
        for child in me.children():
            child.kill()
            killed += 1
            break
        time.sleep(0.3)
    _out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    assert killed


def test_ctrl_c_is_clean(project: Any) -> None:
    fill(project)
    process = start(project.root, project.root / "store")
    time.sleep(0.7)
    os.kill(process.pid, signal.SIGINT)
    _out, err = process.communicate(timeout=30)
    if process.returncode != 0:  # it may have been done already
        assert process.returncode == 130
        assert b"Traceback" not in err
        assert b"was published stays" in err
    assert project.build().output
