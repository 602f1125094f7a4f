"""trace, find, show and peek: data on stdout, words on stderr, names where they are known, errors with their codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

RECIPE = """dsbuild = 1
name = "provenance"
[tokenizer]
file = "bytes"
[source.web]
files = "data/*.jsonl"
handlers = [{ use = "keep", where = "len(text) > 3" }, { use = "tokenize" }]
[source.code]
files = "code.txt"
read = { record = "line" }
handlers = [{ use = "tokenize" }]
[mixture.train]
stages = [{ from = 0, weights = { web = 3 } }, { from = 20, weights = { web = 1, code = 1 } }]
until = { epochs = 2 }
[examples]
length = 16
pack = "fit"
"""


class Run:
    """One run of the command line as a process of its own."""

    def __init__(self, *arguments: object) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dsbuild", *map(str, arguments)],
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        assert "Traceback" not in self.err, self.err


@pytest.fixture
def built(project):
    project.write("recipe.toml", RECIPE)
    for number in range(2):
        rows = [{"text": "no" if n == 4 else f"{number} {'word ' * (n % 3)}"} for n in range(40)]
        project.jsonl(f"data/{number}.jsonl", rows)
    project.write("code.txt", "".join(f"x = {n}\n" for n in range(30)))
    project.build()
    return project


@pytest.fixture
def run(built):
    return lambda command, *options: Run(command, *options, "--store", built.root / "store")


def test_trace(built, run):
    digest = built.open().digest.hex
    for target in (digest[:12], built.recipe):
        found = run("trace", target, "--step", 1, "--size", 4, "--rank", 1, "--world", 2)
        assert found.code == 0
        head, *lines = found.out.splitlines()
        assert head.split() == ["position", "source", "epoch", "example", "at", "tokens", "record", "file"]
        assert {line.split()[0] for line in lines} == {"6", "7"}
        assert all("data/" in line for line in lines)
        assert "step 1 of " in found.err
    whole = json.loads(run("trace", digest, "--step", 1, "--size", 4, "--json").out)
    assert whole["hash"] == digest
    assert [e["position"] for e in whole["examples"]] == [4, 5, 6, 7]
    assert {e["name"] for e in whole["examples"]} == {"web"}
    piece = whole["examples"][0]["pieces"][0]
    assert set(piece) == {"file", "record", "child", "tokens", "at"}
    assert piece["file"]["name"].startswith("data/")
    assert piece["file"]["id"].startswith("b3:")
    # a name that nobody knows any more: digests
    for path in (built.root / "store" / "cache" / "names").iterdir():
        path.write_bytes(b"?")
    bare = run("trace", digest, "--step", 1)
    assert "data/" not in bare.out
    assert "b3:" in bare.out
    assert "data/" in run("trace", built.recipe, "--step", 1).out  # its lock knows them


def test_find(built, run):
    digest = built.open().digest.hex
    piece = json.loads(run("trace", digest, "--step", 5, "--json").out)["examples"][0]["pieces"][0]
    options = ("--source", "web", "--record", piece["record"], "--file", piece["file"]["name"])
    found = json.loads(run("find", digest, *options, "--size", 2, "--json").out)
    assert found["more"] is False
    assert [p["epoch"] for p in found["places"]] == [0, 1]
    place = next(p for p in found["places"] if p["position"] == 5)
    assert (place["step"], place["row"], place["tokens"], place["at"]) == (2, 1, piece["tokens"], piece["at"])
    shown = run("find", built.recipe, *options, "--size", 2, "--limit", 1)
    assert shown.out.splitlines()[0].split()[:3] == ["position", "step", "row"]
    assert len(shown.out.splitlines()) == 2
    assert "1 place and more" in shown.err


def test_errors(built, run):
    for arguments, code, kind, said in (
        (("find", built.recipe, "--source", "wbe", "--record", 0), 4, "not-found", "did you mean 'web'?"),
        (("find", built.recipe, "--source", "web", "--record", 0), 4, "ambiguous", "0 (data/0.jsonl)"),
        (("find", built.recipe, "--source", "web", "--file", "0", "--record", 4), 4, "not-in-stream", "filtered"),
        (("trace", built.recipe, "--step", 99999), 4, "out-of-range", "whole batches"),
        (("trace", built.recipe, "--step", 0, "--size", 3, "--world", 2), 4, "out-of-range", "uneven"),
        (("trace", built.recipe, "--step", 0, "--split", "test"), 4, "not-found", "train"),
        (("trace", "0" * 64, "--step", 0), 4, "not-found", "0000"),
    ):
        done = run(*arguments)
        assert done.code == code, done.err
        assert f"[{kind}]" in done.err
        assert said in done.err
        assert done.out == ""
    failed = run("find", built.recipe, "--source", "web", "--file", "0", "--record", 4, "--json")
    assert json.loads(failed.out)["errors"][0]["kind"] == "not-in-stream"
    assert run("trace", built.recipe).code == 2
    built.write("recipe.toml", RECIPE.replace("length = 16", "length = 17"))
    assert "[not-found]" in run("trace", built.recipe, "--step", 0).err  # not built


def test_show(built, run):
    dataset = built.open()
    found = json.loads(run("show", dataset.digest.hex, "--size", 7, "--json").out)
    (stream,) = found["streams"]
    assert (stream["examples"], stream["length"], stream["pack"]) == (len(dataset), 16, "fit")
    assert (stream["steps"], stream["dropped"]) == divmod(len(dataset), 7)
    assert (stream["stages"], stream["until"]) == ([0, 20], "2 epochs")
    sources = {s["name"]: s for s in stream["sources"]}
    assert (sources["web"]["weights"], sources["code"]["weights"]) == ([1, 1], [0, 1])
    taken = [t.name for t in dataset.trace(0, len(dataset))]
    for name, source in sources.items():
        places = [n for n, other in enumerate(taken) if other == name]
        assert (source["taken"], source["epochs"]) == (len(places), "2.000")
        assert source["first_epoch_ends"] == places[source["examples"] - 1] + 1
        assert source["ends"] == places[-1] + 1
        assert 0 <= float(source["padding"]) < 0.5
        assert {"digest", "weight", "examples", "epochs"} <= set(source)
    assert max(s["ends"] for s in stream["sources"]) == len(dataset)
    shown = run("show", built.recipe, "--size", 7).out
    assert "from 20" in shown
    assert "padding" in shown
    assert f"the last {len(dataset) % 7} example" in shown


def test_peek_names_sources(built, run):
    digest = built.open().digest.hex
    assert "example 0: web[" in run("peek", digest).out
    found = json.loads(run("peek", digest, "--size", 2, "--json").out)["examples"]
    assert [e["source"] for e in found] == ["web", "web"]
    assert all("\0" not in e["text"] for e in found)  # no padding
