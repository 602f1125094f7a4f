"""Traces of streams of every shape, of other recipes' records, and of what was damaged."""

from __future__ import annotations

import numpy as np
import pytest

from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.load import RangeError
from dsbuild.load.find import find
from dsbuild.load.provenance import Lineage
from dsbuild.load.trace import trace
from dsbuild.store.names import Names

RECIPE = """
dsbuild = 1
name = "{name}"
[tokenizer]
file = "bytes"
{sources}
[mixture.train]
weights = {{ web = 1 }}
[examples]
length = 16
{examples}
"""
WEB = '[source.web]\nfiles = "web/*.jsonl"\nhandlers = [{ use = "tokenize" }]\n'


def write(project, sources=WEB, examples='shuffle = "none"', name="trace"):
    project.write("recipe.toml", RECIPE.format(name=name, sources=sources, examples=examples))
    for number, texts in enumerate((["alpha", "beta", "gamma delta epsilon"], ["one", "", "two", "three"])):
        project.jsonl(f"web/{number}.jsonl", [{"text": text} for text in texts])
    project.build(update=())
    return project.open()


def told(dataset, step=0, size=None):
    return [
        [(p.file.name, p.record, p.start, p.stop, p.row_start, p.row_stop) for p in t.pieces]
        for t in dataset.trace(step, size or len(dataset))
    ]


def test_windows_of_concatenated_records(project):
    dataset = write(project)
    assert told(dataset) == [
        [("web/0.jsonl", 0, 0, 5, 0, 5), ("web/0.jsonl", 1, 0, 4, 5, 9), ("web/0.jsonl", 2, 0, 8, 9, 17)],
        [
            ("web/0.jsonl", 2, 7, 19, 0, 12),
            ("web/1.jsonl", 0, 0, 3, 12, 15),
            ("web/1.jsonl", 2, 0, 2, 15, 17),
        ],
        [("web/1.jsonl", 2, 1, 3, 0, 2), ("web/1.jsonl", 3, 0, 5, 2, 7)],
    ]
    (first, *_) = dataset.trace(0, 3)
    assert (first.position, first.name, first.epoch, first.example) == (0, "web", 0, 0)
    assert first.source == dataset.sources[0].digest
    assert first.pieces[0].file.id.startswith("b3:")
    assert [t.position for t in dataset.trace(1, 1)] == [1]
    assert [t.position for t in dataset.trace(0, 3, 1, 3)] == [1]


def test_a_record_alone_may_be_empty(project):
    dataset = write(project, examples='shuffle = "none"\npack = "none"\noverlong = "cut"')
    assert told(dataset, 0)[2:5] == [
        [("web/0.jsonl", 2, 0, 17, 0, 17)],
        [("web/1.jsonl", 0, 0, 3, 0, 3)],
        [("web/1.jsonl", 1, 0, 0, 0, 0)],
    ]


def test_out_of_range(project):
    dataset = write(project)
    for arguments in ((3, 1), (-1, 1), (0, 0), (0, 3, 3, 3), (0, 3, 0, 2)):
        with pytest.raises(RangeError):
            dataset.trace(*arguments)


@pytest.mark.parametrize("stream", ["plain", "document", "dealt", "fit", "fit-dealt", "none", "none-dealt"])
def test_streams_of_the_corpus(corpus, stream):
    """Stages, caps, weights by tokens: each example's spans fill its row, and the first piece of each is found again."""
    dataset = corpus[stream]
    for t in dataset.trace(0, len(dataset))[:: max(len(dataset) // 40, 1)]:
        batch = dataset.example(t.position)
        borders = [0, *(p.row_stop for p in t.pieces)]
        assert [p.row_start for p in t.pieces] == borders[:-1]
        assert borders[-1] <= 25
        assert not batch["input_ids"][borders[-1] :].any()
        p = t.pieces[0]
        assert t.name is not None
        places = dataset.find(t.name, p.record, p.file.ordinal)
        assert (t.position, t.epoch, p.start, p.stop) in {(f.position, f.epoch, f.start, f.stop) for f in places}


def test_branches_and_other_recipes(make_project):
    """Records of a branch of another recipe's records come from that recipe's files, with its names."""
    first = make_project()
    write(first, name="first")
    (records,) = first.prepare().instance.outputs.values()
    keep = '{ use = "keep", where = "len(input_ids) != 3" }'
    sources = f'[source.old]\nfrom = "drv:{records.hex}"\nhandlers = [{keep}]\n[source.more]\nfiles = "more.txt"\n'
    sources += 'handlers = [{ use = "tokenize" }]\n[source.web]\nfrom = ["more", "old"]\n'
    first.write("second.toml", RECIPE.format(name="second", sources=sources, examples='shuffle = "none"'))
    first.write("more.txt", "whole")
    second = type("Second", (type(first),), {"recipe": property(lambda self: self.root / "second.toml")})(first.root)
    second.build()
    dataset = second.open()
    files = {(p.file.ordinal, p.file.name, p.record) for t in dataset.trace(0, len(dataset)) for p in t.pieces}
    assert files == {
        (0, "more.txt", 0),
        (1, "web/0.jsonl", 0),
        (1, "web/0.jsonl", 1),
        (1, "web/0.jsonl", 2),
        (2, "web/1.jsonl", 3),
    }
    assert dataset.find("web", 3, "web/1.jsonl")[0].position == 2
    first.store.roots.remove("first")  # its names are no longer looked at
    unnamed = {p.file.name for t in dataset.trace(0, len(dataset)) for p in t.pieces}
    assert unnamed == {"more.txt", None}
    first.store.layout.manifest(records)
    (first.root / "store").joinpath("manifests", records.hex[:2], records.hex).unlink()
    with pytest.raises(NotFoundError) as caught:
        dataset.trace(0, 1)
    assert caught.value.kind == "not-built"


def test_names_are_only_a_convenience(project):
    dataset = write(project)
    path = project.root / "store" / "cache" / "names" / dataset.digest.hex
    whole = path.read_bytes()
    for data in (None, b"", b"{}", whole[:-9] + b"\n", b"\xff" * 300):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        traced = dataset.trace(0, 1)[0]
        assert traced.name is None
        assert {p.file.name for p in traced.pieces} == {None}
        assert dataset.find(dataset.sources[0].digest.hex[:9], 0, 0)
    given = trace(dataset, 0, 1, names=Names(views={dataset.sources[0].digest.hex: "a\x1b[2Jb"}))
    assert given[0].name == "a\\x1b[2Jb"
    project.build()  # a build puts them back
    assert path.read_bytes() == whole


def test_a_damaged_origin_is_named(project):
    dataset = write(project)
    content = dataset.sources[0].records.content(0).hex
    (chunk,) = (project.root / "store" / "objects" / content[:2] / content).glob("*/data.zarr/@record/c.0")
    data = bytearray(chunk.read_bytes())
    data[1] ^= 1
    chunk.chmod(0o644)
    chunk.write_bytes(data)
    with pytest.raises(CorruptError, match=r"part 0: .*@record"):
        dataset.trace(0, 1)
    with pytest.raises(CorruptError, match=r"part 0: .*@record"):
        find(dataset, "web", 0, 0)


def test_segments_that_there_are_not(project):
    dataset = write(project)
    ints = [np.array(a, np.int64) for a in ([0, 1], [0], [0])]
    lineage = Lineage(
        records=dataset.digest, lists=(), part_segments=ints[0], segment_file=ints[1], segment_first=ints[2]
    )
    with pytest.raises(CorruptError, match="segment 1 of 1"):
        lineage.sources(0, np.array([1 << 40]))
