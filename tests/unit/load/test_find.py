"""Finding records: how they are named, the steps that they are in, and why a record is in none."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dsbuild.errors import NotFoundError
from dsbuild.load import RangeError
from dsbuild.order.partition import Schedule

RECIPE = """
dsbuild = 1
name = "find"
[tokenizer]
file = "bytes"
[source.web]
files = "web/*.jsonl"
on_error = "skip"
handlers = [{{ use = "keep", where = "text != 'no'" }}, {{ use = "tokenize" }}]
{source}
[source.note]
files = ["note.txt"]
handlers = [{{ use = "tokenize" }}]
[mixture.train]
weights = {{ web = 3, note = 1 }}
{mixture}
[examples]
length = 8
{examples}
"""
ROWS = [{"text": "one"}, {"text": "no"}, {"n": 1}, {"text": ""}, {"text": "a record of many tokens"}, {"text": "two"}]


def write(
    project, *, source="", mixture="until = { epochs = 3 }", examples='pack = "fit"\noverlong = "drop"', rows=ROWS
):
    project.write("recipe.toml", RECIPE.format(source=source, mixture=mixture, examples=examples))
    for number in range(3):
        project.jsonl(f"web/{number}.jsonl", rows if number != 1 else [{"text": "only"}] * 2)
    project.write("note.txt", "a note")
    project.build(update=())
    return project.open()


def why(dataset, *arguments, kind="not-in-stream", **options):
    with pytest.raises(NotFoundError) as caught:
        dataset.find(*arguments, **options)
    assert caught.value.kind == kind
    assert caught.value.exit_code == 4
    return caught.value.render()


def test_every_epoch_is_found(project):
    dataset = write(project)
    found = dataset.find("web", 0, "web/0.jsonl")
    assert [f.epoch for f in found] == [0, 1, 2]
    assert [f.position for f in found] == sorted(f.position for f in found)
    assert dataset.find("web", 0, "web/0.jsonl", limit=2) == found[:2]
    assert {(f.child, f.start, f.stop, f.step, f.row) for f in found} == {(0, 0, 3, None, None)}


def test_steps_and_rows(project):
    dataset = write(project)
    steps = dataset.steps(4)
    for f in dataset.find("web", 0, 0, size=4):
        assert (f.step, f.row) == (divmod(f.position, 4) if f.position < 4 * steps else (None, None))
    schedule = Schedule(starts=(0, 1, 3), sizes=(2, 1, 3))
    for f in dataset.find("web", 0, 0, size=schedule):
        if f.step is None:
            assert f.position >= schedule.first(dataset.steps(schedule))
        else:
            assert schedule.first(f.step) + f.row == f.position
            assert 0 <= f.row < schedule.size(f.step)
    for size in (0, -2):
        with pytest.raises(RangeError):
            dataset.find("web", 0, 0, size=size)
    with pytest.raises(RangeError):
        dataset.find("web", 0, 0, limit=0)


def test_sources_and_files_by_name_number_and_content(project):
    dataset = write(project)
    at = next(n for n, v in enumerate(dataset.sources) if len(v.records.segment_file) > 1)
    view, content = dataset.sources[at].digest.hex, dataset.find  # the larger source
    expected = content("web", 0, "web/1.jsonl")
    piece = next(p for t in dataset.trace(0, len(dataset)) for p in t.pieces if p.file.name == "web/1.jsonl")
    for source in ("web", "source.web", view, view[:10]):
        for file in (1, "1", "web/1.jsonl", piece.file.id, piece.file.id[:12], piece.file.id[3:20].upper()):
            assert content(source, 0, file) == expected
    assert dataset.find("note", 0) == dataset.find("note", 0, "note.txt")


def test_who_is_not_known(project):
    dataset = write(project)
    assert "did you mean 'web'?" in why(dataset, "wbe", 0, kind="not-found")
    assert "which has note, web" in why(dataset, "", 0, kind="not-found")
    assert "3 files: say which" in why(dataset, "web", 0, kind="ambiguous")
    assert "did you mean 'web/1.jsonl'?" in why(dataset, "web", 0, "web/1.json", kind="not-found")
    assert "0 (web/0.jsonl), 2 (web/2.jsonl)" in why(dataset, "web", 0, dataset_id(dataset), kind="ambiguous")
    for file in (3, -1, "", "9" * 5000):
        why(dataset, "web", 0, file, kind="not-found")
    assert "\x1b" not in why(dataset, "a\x1b[2J", 0, "b\x1b", kind="not-found")
    assert "\x1b" not in why(dataset, "web", 0, "b\x1b", kind="not-found")


def dataset_id(dataset):
    """The content id that two files share."""
    found = [p.file for t in dataset.trace(0, len(dataset)) for p in t.pieces]
    return next(file.id for file in found if file.name == "web/0.jsonl")


def test_why_a_record_is_nowhere(project):
    dataset = write(project)
    web = ("web/0.jsonl",)
    assert "a handler filtered it" in why(dataset, "web", 1, *web)
    assert "skipped (on_error" in why(dataset, "web", 2, *web)
    assert "it has no tokens" in why(dataset, "web", 3, *web)
    assert "23 tokens, above length + 1 = 9" in why(dataset, "web", 4, *web)
    assert "the file ends before it (the last one that is left is record 5)" in why(dataset, "web", 6, *web)
    assert "the file ends before it (the last one that is left is record 1)" in why(dataset, "web", 2, 1)
    assert "count from 0" in why(dataset, "web", -1, *web)
    why(dataset, "web", 1 << 70, *web)


def test_other_splits(project):
    valid = "\n[mixture.valid]\nweights = { web = 1 }\n[mixture.train2]\nweights = { web = 1 }"
    split = "split = { train = 0.4, valid = 0.3, train2 = 0.3 }"
    examples = 'pack = "none"\noverlong = "cut"'
    rows = [{"text": f"record {n}"} for n in range(30)]
    dataset = write(project, source=split, mixture="until = { epochs = 1 }" + valid, examples=examples, rows=rows)
    seen: dict[str, set[int]] = {}
    for name in ("train", "valid", "train2"):
        other = project.open(name)
        seen[name] = {p.record for t in other.trace(0, len(other)) for p in t.pieces if p.file.name == "web/0.jsonl"}
    assert sum(map(len, seen.values())) == 30
    for name in ("valid", "train2"):
        for record in seen[name]:
            assert f"not in split 'train' but in '{name}'" in why(dataset, "web", record, "web/0.jsonl")


def test_past_the_end(project):
    dataset = write(
        project, mixture='until = "all"\nmax_epochs = { web = 0.5 }', examples='pack = "none"\noverlong = "cut"'
    )
    taken = {(p.file.ordinal, p.record) for t in dataset.trace(0, len(dataset)) if t.name == "web" for p in t.pieces}
    reached = 0
    for file, records in ((0, (0, 3, 4, 5)), (1, (0, 1)), (2, (0, 3, 4, 5))):
        for record in records:
            if (file, record) in taken:
                assert dataset.find("web", record, file)
                reached += 1
            else:
                assert "the stream ends before example" in why(dataset, "web", record, file)
    assert reached == len(taken) == 5


def test_a_record_of_many_windows(project):
    project.write(
        "recipe.toml",
        RECIPE.format(source="", mixture="until = { epochs = 2 }", examples='pack = "concat"'),
    )
    project.jsonl("web/0.jsonl", [{"text": "x" * 5}, {"text": "y" * 1000}])
    project.write("note.txt", "a note")
    project.build()
    dataset = project.open()
    found = dataset.find("web", 1)
    assert len(found) == 252
    first = sorted((f for f in found if f.epoch == 0), key=lambda f: f.start)
    assert (first[0].start, first[0].row_start, first[-1].stop) == (0, 5, 1000)
    assert all(b.start == a.stop - 1 for a, b in pairwise(first))  # a border's token is met twice
    assert dataset.find("web", 1, limit=7) == found[:7]
