"""The test every peer fails: what each change costs, counted. One test a row of the table in the identity design.

A source of 100 files, one user handler that calls a helper module, then tokenize.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from dsbuild.build import contents_of
from dsbuild.errors import CorruptError, LockError

FILES, ROWS = 100, 5

RECIPE = """
dsbuild = 1
name = "changes"
[tokenizer]
file = "bytes"
eos = "<eos>"
[source.web]
files = "data/*.jsonl"
part_bytes = 4096
handlers = [{ use = "clean.py:clean", least = %s }, { use = "tokenize" }]
[mixture.train]
weights = { web = 1 }
[examples]
length = 16
"""
HELPER = "def tidy(text):\n    return text.strip()\n"
HANDLER = """from rules import tidy


def clean(record, least):
    text = tidy(record["text"])
    return {**record, "text": text} if len(text) >= least else None
"""


def rows(number: int) -> list[dict[str, str]]:
    return [{"text": f"file {number} row {row}: " + "word " * (number % 7 + row)} for row in range(ROWS)]


@pytest.fixture
def built(project: Any) -> Any:
    """The project, built once in this process."""
    project.write("recipe.toml", RECIPE % 3)
    project.write("clean.py", HANDLER)
    project.write("rules.py", HELPER)
    for number in range(FILES):
        project.jsonl(f"data/{number:03}.jsonl", rows(number))
    report = project.build()
    assert report.calls == {"python@1": FILES * ROWS, "tokenize@1": FILES * ROWS}
    assert report.built == FILES
    return project


def texts(project: Any) -> list[str]:
    """Every stored document, decoded."""
    found = []
    store = project.store
    digest = next(iter(project.prepare().instance.outputs.values()))
    for content in contents_of(store.manifest(digest)):
        values, offsets = store.object(content).column("input_ids")
        for a, b in itertools.pairwise(offsets):
            found.append(bytes(values[a : b - 1].astype("uint8")).decode())
    return found


def test_nothing_changed(built: Any) -> None:
    report = built.build()
    assert report.built == 0
    assert report.calls == {}


def test_one_file_added(built: Any) -> None:
    built.jsonl("data/050b.jsonl", rows(777))
    with pytest.raises(LockError, match=r"050b\.jsonl"):
        built.build()
    report = built.build(update=())
    assert report.built == 1
    assert report.calls == {"python@1": ROWS, "tokenize@1": ROWS}
    assert any(t.startswith("file 777") for t in texts(built))


def test_one_file_renamed_to_the_end(built: Any) -> None:
    (built.root / "data/000.jsonl").rename(built.root / "data/zzz.jsonl")
    assert built.build(update=()).built == 0


def test_comment_edited(built: Any) -> None:
    before = built.prepare().digest
    built.write(
        "clean.py", '"""Cleans."""\n# a comment\n' + HANDLER.replace("    text = tidy", "\n    # why\n    text = tidy")
    )
    report = built.build()
    assert (report.output, report.built, report.calls) == (before, 0, {})


def test_helper_changed(built: Any) -> None:
    before = built.prepare().digest
    built.write("rules.py", HELPER.replace("text.strip()", "text.strip().upper()"))
    report = built.build()
    assert report.output != before
    assert report.calls == {"python@1": FILES * ROWS, "tokenize@1": FILES * ROWS}
    assert all(t.startswith("FILE ") for t in texts(built))


def test_helper_changed_with_equal_output(built: Any) -> None:
    before = built.prepare().digest
    contents = texts(built)
    built.write("rules.py", HELPER.replace("text.strip()", "text.lstrip().rstrip()"))
    report = built.build()
    assert report.output != before
    assert report.calls == {"python@1": FILES * ROWS}
    assert sum(n.cutoff for n in report.nodes) == FILES
    assert texts(built) == contents


def test_handler_body_changed(built: Any) -> None:
    built.write("clean.py", HANDLER.replace('"text": text}', '"text": text + "!"}'))
    report = built.build()
    assert report.calls["python@1"] == FILES * ROWS
    assert all(t.endswith("!") for t in texts(built))


def test_filter_parameter_changed(built: Any) -> None:
    built.write("recipe.toml", RECIPE % 30)
    report = built.build()
    assert report.calls["python@1"] == FILES * ROWS
    assert all(len(t) >= 30 for t in texts(built))
    assert 0 < len(texts(built)) < FILES * ROWS


def test_tokenizer_changed_half_way(built: Any, tmp_path: Path) -> None:
    """A build that stops half-way and goes on with another tokenizer mixes nothing."""
    built.write("recipe.toml", RECIPE.replace('eos = "<eos>"', 'eos = "<bos>"') % 3)
    report = built.build()
    assert report.calls == {"python@1": FILES * ROWS, "tokenize@1": FILES * ROWS}
    store = built.store
    digest = next(iter(built.prepare().instance.outputs.values()))
    for content in contents_of(store.manifest(digest)):
        values, offsets = store.object(content).column("input_ids")
        assert {int(values[b - 1]) for b in offsets[1:]} == {257}


def test_killed_at_90_percent(project: Any) -> None:
    """Only what was not published is built again."""
    project.write("recipe.toml", RECIPE % 3)
    project.write("clean.py", HANDLER)
    project.write("rules.py", HELPER)
    for number in range(FILES):
        project.jsonl(f"data/{number:03}.jsonl", rows(number))
    store = project.store
    session = project.prepare()
    from dsbuild.build import InlineExecutor, build

    class Killed(BaseException):
        pass

    work, seen = session.work(store), []

    def dies(task: Any) -> Any:
        if len(seen) == 90:
            raise Killed
        seen.append(task)
        return work(task)

    with pytest.raises(Killed):
        build(session.instance.graph, store, session.files, InlineExecutor(), dies)
    assert project.build().built == 10


def test_bytes_flipped_in_the_store(built: Any) -> None:
    from dsbuild.store import verify

    path = max((built.root / "store/objects").rglob("values/c.0"), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    for at in range(4):
        data[at] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(bytes(data))
    assert verify(built.store).damage
    dataset = built.open()
    with pytest.raises(CorruptError):
        for step in range(dataset.steps(1)):
            dataset.batch(step, 1)


def test_directory_moved_with_the_recipe_edited(built: Any) -> None:
    """Other names and patterns for the same content: the same hash, nothing built, nothing to accept."""
    before = built.prepare().digest
    (built.root / "data").rename(built.root / "lake")
    built.write("recipe.toml", (RECIPE % 3).replace("data/*.jsonl", "lake/*.jsonl"))
    report = built.build()
    assert (report.output, report.built) == (before, 0)
