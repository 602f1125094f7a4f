"""What a build lets pass can be opened: mixtures that are no stream are told when the build ends, and when opened."""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np
import pytest

from dsbuild.build import World
from dsbuild.build.examples import _view
from dsbuild.errors import BuildError, DsbuildError
from dsbuild.graph import Graph, parse

HEAD = 'dsbuild = 1\nname = "none"\n[tokenizer]\nfile = "bytes"\n'
TWO = "".join(f'[source.{n}]\nfiles = "{n}/*.jsonl"\nhandlers = [{{ use = "tokenize" }}]\n' for n in "zy")
RECORDS: Mapping[str, list[list[str]]] = {"z": [["ab", "cde"]], "y": [["fgh", "i", "jklm"]]}


def recipe(project: Any, mixture: str, examples: str, sources: str = TWO, rest: int = 0, **records: Any) -> None:
    """``rest``: bytes of a column that is not used, so that small records fill parts."""
    project.write("recipe.toml", f"{HEAD}{sources}[mixture.train]\n{mixture}\n[examples]\n{examples}\n")
    for name, files in (RECORDS | records).items():
        for number, texts in enumerate(files):
            project.jsonl(f"{name}/{number}.jsonl", [{"text": text, "rest": "x" * rest} for text in texts])


NONE = 'length = 8\npack = "none"'
BOTH = "weights = { z = 1, y = 1 }"
STAGES = "stages = [{ from = 0, weights = { z = 1 } }, { from = 1000, weights = { y = 1 } }]"
DEALT = '[source.z]\nfiles = "z/*.jsonl"\norder = { interleave = 64 }\npart_bytes = 4096\nhandlers = [{ use = "tokenize" }]\n'


@pytest.mark.parametrize(
    ("mixture", "examples", "more", "message"),
    [
        (f'{BOTH}\nby = "tokens"', NONE, {"z": [["", ""]]}, "source.z has no token in its 2 examples"),
        (f"{STAGES}\nuntil = {{ epochs = 1 }}", NONE, {}, "stage 0 has 2 examples"),
        (f"{BOTH}\nmax_epochs = {{ z = 0.1 }}", NONE, {}, "source.z gives no example: max_epochs = 0.1 of its 2"),
        ("weights = { z = 1 }\nmax_epochs = { z = 0.1 }", NONE, {}, "gives no example: until = { epochs = 0.1 }"),
        (f"{BOTH}\nuntil = {{ epochs = 0.01 }}", NONE, {}, "gives no example: until = { epochs = 0.01 }"),
        (
            "weights = { z = 1 }",
            "length = 8",
            {"z": [["a"]] * 9, "sources": DEALT, "rest": 5000},
            "source.z gives no example",
        ),
    ],
)
def test_no_stream(project: Any, mixture: str, examples: str, more: dict[str, Any], message: str) -> None:
    recipe(project, mixture, examples, **more)
    with pytest.raises(BuildError) as caught:
        project.build()
    assert caught.value.kind == "empty"
    assert message in str(caught.value) and str(caught.value).startswith("mixture.train: ")
    with pytest.raises(DsbuildError) as opening:
        project.open()
    assert opening.value.kind == "empty"


def test_a_cap_beyond_all_streams(project: Any) -> None:
    recipe(project, f"{BOTH}\nmax_epochs = {{ y = 1000000000000000000 }}", NONE)
    project.build()
    assert len(project.open()) > 4


def test_the_build_counts_as_the_loader_does(corpus: Any) -> None:
    for name in corpus.names:
        opened = corpus[name]
        data = opened.store.derivation(opened.digest)
        world = World(graph=Graph(derivations={}, labels={}, output=opened.digest), store=opened.store, files={})
        for source in opened.sources:
            view = _view(world, "train", source.digest)
            assert view is not None
            assert view.examples(parse(data).arguments) == source.length
            assert view.tokens == source.tokens


def test_cut_tokens_have_no_weight(project: Any) -> None:
    """Tokens that are cut off are not served, so they weigh nothing: proportions are of what is read."""
    long, short = ["x" * 500] * 40, ["y" * 5] * 400
    recipe(
        project,
        f'{BOTH}\nby = "tokens"\nuntil = "first"',
        'length = 4\npack = "none"\noverlong = "cut"',
        z=[long],
        y=[short],
    )
    project.build()
    opened = project.open()
    owners = opened.rows(0, len(opened))["source"]
    lengths = np.array([s.tokens / s.length for s in opened.sources])
    assert lengths.tolist() == [5, 5]
    counts = np.bincount(owners)
    assert abs(int(counts[0]) - int(counts[1])) <= 2
    assert {int((opened.example(i)["labels"] != -100).sum()) for i in range(len(opened))} == {4}


def test_many_readers_of_few_parts(project: Any) -> None:
    texts = [f"text {n}" for n in range(40)]
    streams = []
    for readers in (1000, 1 << 20):
        recipe(
            project,
            "weights = { z = 1 }",
            'length = 8\nshuffle = "none"',
            sources=DEALT.replace("64", str(readers)),
            rest=1000,
            z=[texts, texts[::-1]],
        )
        project.build(update=())
        start = process_time()
        opened = project.open()
        assert process_time() - start < 0.7
        streams.append(opened.examples(0, len(opened))["input_ids"].tolist())
    assert streams[0] == streams[1]


def test_two_sources_of_one_file_leak(project: Any) -> None:
    sources = "".join(f'[source.{n}]\nfiles = "z/*.jsonl"\nhandlers = [{{ use = "tokenize" }}]\n' for n in "zy")
    recipe(project, "weights = { z = 1 }\n[mixture.valid]\nweights = { y = 1 }", "length = 8", sources=sources)
    with pytest.raises(DsbuildError) as caught:
        project.build()
    assert caught.value.kind == "leak"
