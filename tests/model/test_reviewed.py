"""Holes that review found, each closed: what a chain, branch, lock or key must not let through."""

from __future__ import annotations

import gzip
from itertools import pairwise
from typing import Any

import pytest

from dsbuild.errors import BuildError, DsbuildError, LockError, NotFoundError, RecipeError

HEAD = 'dsbuild = 1\nname = "r"\n[tokenizer]\nfile = "bytes"\n'
TAIL = '[examples]\nlength = 8\nshuffle = "none"\n'


def texts(project: Any, label: str) -> list[str]:
    store = project.store
    manifest = store.manifest(project.prepare().instance.outputs[label])
    found = []
    for part in range(len(manifest)):
        values, offsets = store.object(manifest.content(part)).column("input_ids")
        found += [bytes(values[a:b].astype("uint8")).decode() for a, b in pairwise(offsets)]
    return found


def test_columns_of_one_strand_are_not_those_of_another(project: Any) -> None:
    project.jsonl("x.jsonl", [{"text": "abc", "title": "TTT"}])
    project.write("h.py", "def f(r):\n    return {'text': r.get('title', '?') + r['text']}\n")
    source = '[source.{0}]\nfiles = "x.jsonl"\nhandlers = [{1}]\n'
    a = source.format("a", '{ use = "tokenize" }')
    b = source.format("b", '{ use = "h.py:f" }, { use = "tokenize" }')
    project.write(
        "recipe.toml", HEAD + a + b + '[source.c]\nfrom = ["a", "b"]\n[mixture.train]\nweights = { c = 1 }\n' + TAIL
    )
    project.build()
    assert texts(project, "c") == ["abc", "TTTabc"]


@pytest.mark.parametrize("first", ["skip", "error"])
def test_skipping_never_serves_a_build_that_does_not(project: Any, first: str) -> None:
    project.jsonl("x.jsonl", [{"text": "good"}, {"other": "bad"}])
    project.write("h.py", "def f(r):\n    return {**r}\n")
    recipe = (
        HEAD
        + '[source.a]\nfiles = "x.jsonl"\non_error = "{0}"\nhandlers = [{{ use = "h.py:f" }}, {{ use = "tokenize" }}]\n'
    )
    recipe += "[mixture.train]\nweights = {{ a = 1 }}\n" + TAIL
    for mode in (first, "error" if first == "skip" else "skip"):
        project.write("recipe.toml", recipe.format(mode))
        if mode == "error":
            with pytest.raises(BuildError):
                project.build()
        else:
            report = project.build()
            assert [n.skipped_count for n in report.nodes] == [1]
            assert texts(project, "a") == ["good"]


def test_skips_belong_to_their_file(project: Any) -> None:
    project.write("h.py", "def f(r):\n    return {'text': r['text']}\n")
    project.write("a.jsonl", '{"text": "same"}\nnot json\n')
    recipe = '[source.a]\nfiles = "{0}.jsonl"\non_error = "skip"\nhandlers = [{{ use = "h.py:f" }}, {{ use = "tokenize" }}]\n'
    end = "[mixture.train]\nweights = { a = 1 }\n" + TAIL
    project.write("recipe.toml", HEAD + recipe.format("a") + end)
    assert project.build().nodes[0].skipped_count == 1
    project.write("c.jsonl", '{"text": "same"}\n')
    project.write("recipe.toml", HEAD + recipe.format("c") + end)
    report = project.build(update=())
    manifest = project.store.manifest(report.nodes[0].digest)
    assert project.store.realisation(manifest.action(0)).skipped == 0


def test_branches_keep_text_of_any_reader(project: Any) -> None:
    project.write("n.txt", "plain")
    project.jsonl("x.jsonl", [{"text": "json"}])
    project.write("h.py", "def f(r, mark):\n    return {'text': mark + r['text']}\n")
    recipe = '[source.n]\nfiles = "n.txt"\n[source.x]\nfiles = "x.jsonl"\n[source.both]\nfrom = ["n", "x"]\n'
    for name in "pq":
        recipe += f'[source.{name}]\nfrom = "both"\nhandlers = [{{ use = "h.py:f", mark = "{name}" }}, {{ use = "tokenize" }}]\n'
    project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { p = 1, q = 1 }\n" + TAIL)
    report = project.build()
    assert texts(project, "p") == ["pplain", "pjson"]
    assert texts(project, "q") == ["qplain", "qjson"]
    assert len([n for n in report.nodes if n.kind == "records"]) == 3  # the common part was made once


def test_python_may_replace_text(project: Any) -> None:
    project.write("n.txt", "plain")
    project.write("h.py", "def f(r):\n    return {'body': r['text'] * 2}\n")
    recipe = '[source.n]\nfiles = "n.txt"\nhandlers = [{ use = "h.py:f" }, { use = "tokenize", column = "body" }]\n'
    project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { n = 1 }\n" + TAIL)
    project.build()
    assert texts(project, "n") == ["plainplain"]


def test_a_lock_that_does_not_cover_the_recipe_opens_nothing(project: Any) -> None:
    project.jsonl("x.jsonl", [{"text": "abcdefgh"}])
    recipe = (
        '[source.a]\nfiles = "x.jsonl"\nhandlers = [{ use = "tokenize" }]\n[mixture.train]\nweights = { a = 1 }\n'
        + TAIL
    )
    project.write("recipe.toml", HEAD + recipe)
    project.build()
    assert len(project.open())
    for head in (HEAD.replace('"bytes"', '"gone.json"'), HEAD + 'eos = "<eos>"\n'):
        project.write("recipe.toml", head + recipe)
        with pytest.raises(LockError):
            project.open()


def test_drv_of_a_whole_recipe_is_explained(project: Any, make_project: Any) -> None:
    project.jsonl("x.jsonl", [{"text": "abcdefgh"}])
    recipe = (
        '[source.a]\nfiles = "x.jsonl"\nhandlers = [{ use = "tokenize" }]\n[mixture.train]\nweights = { a = 1 }\n'
        + TAIL
    )
    project.write("recipe.toml", HEAD + recipe)
    report = project.build()
    (records,) = [n.digest.hex for n in report.nodes if n.kind == "records"]
    again = '[source.a]\nfrom = "drv:{0}"\n[mixture.train]\nweights = {{ a = 1 }}\n' + TAIL
    project.write("recipe.toml", HEAD + again.format(report.output.hex))
    with pytest.raises(RecipeError, match="dataset"):
        project.build(update=())
    project.write("recipe.toml", HEAD + again.format(records))
    project.build(update=())
    assert texts(project, "a") == ["abcdefgh"]
    elsewhere = make_project()
    elsewhere.write("recipe.toml", HEAD + again.format(records))
    with pytest.raises(NotFoundError):
        elsewhere.build()


@pytest.mark.parametrize("columns", ['{ text = "b", n = "text" }', '{ n = "text", text = "b" }'])
def test_order_of_copies_does_not_matter(project: Any, columns: str) -> None:
    project.jsonl("x.jsonl", [{"text": "one", "n": "two"}])
    recipe = f'[source.a]\nfiles = "x.jsonl"\nhandlers = [{{ use = "copy", columns = {columns} }}, {{ use = "tokenize", column = "b" }}]\n'
    project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { a = 1 }\n" + TAIL)
    try:
        project.build()
    except DsbuildError as error:
        assert error.kind in ("bad-value",)  # a name both old and new is refused, in either order
    else:
        assert texts(project, "a") == ["one"]


def test_the_form_of_a_file_is_in_the_hash(project: Any) -> None:
    """The same bytes as .csv and as .tsv are not the same records."""
    project.write("h.py", "def f(r):\n    return {'text': '|'.join(map(str, r.values()))}\n")
    found = {}
    for name in ("x.csv", "x.tsv"):
        project.write(name, "1,2\t3\n4,5\t6\n")
        recipe = f'[source.a]\nfiles = "{name}"\nread = {{ header = false }}\n'
        recipe += 'handlers = [{ use = "h.py:f" }, { use = "tokenize" }]\n'
        project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { a = 1 }\n" + TAIL)
        found[name] = (project.build(update=()).output, texts(project, "a"))
    assert found["x.csv"][0] != found["x.tsv"][0]
    assert (found["x.csv"][1][0], found["x.tsv"][1][0]) == ("1|2\t3", "1,2|3")


def test_one_source_of_many_formats(project: Any) -> None:
    """A directory of files that several readers serve, in the order of their names, dealt to readers too."""
    for name in ["a.jsonl", "b.txt", "c.jsonl.gz", "d.csv"]:
        text = {"a": '{"text": "aa"}\n', "b": "bb", "c": '{"text": "cc"}\n', "d": "text\ndd\n"}[name[0]]
        data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        project.write(f"data/{name}", data)
    for order in ("", "order = { interleave = 2 }\n"):
        recipe = f'[source.a]\nfiles = "data"\n{order}handlers = [{{ use = "tokenize" }}]\n'
        project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { a = 1 }\n" + TAIL)
        project.build()
        assert texts(project, "a") == ["aa", "bb", "cc", "dd"]
        assert len(project.open()) >= 1


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('files = "data/x.bin"', "unknown-reader"),
        ('files = "data/x.txt"\nformat = "jsonlx"', "unknown-reader"),
        ('files = "data/x.txt"\nread = { recrd = "line" }', "bad-value"),
        ('files = "data/x.txt"\nread = { record = "lin" }', "bad-value"),
    ],
)
def test_readers_are_checked_with_the_recipe(project: Any, source: str, kind: str) -> None:
    for name in ("data/x.bin", "data/x.txt"):
        project.write(name, "text")
    recipe = f'[source.a]\n{source}\nhandlers = [{{ use = "tokenize" }}]\n[mixture.train]\nweights = {{ a = 1 }}\n'
    project.write("recipe.toml", HEAD + recipe + TAIL)
    with pytest.raises(RecipeError) as caught:
        project.prepare()
    assert caught.value.kind == kind
    assert caught.value.diagnostics[0].where.line


def test_updating_one_name_accepts_that_one(project: Any) -> None:
    from dsbuild.build import update_lock

    recipe = ""
    for name in "ab":
        project.jsonl(f"{name}.jsonl", [{"text": name * 9}])
        recipe += f'[source.{name}]\nfiles = "{name}.jsonl"\nhandlers = [{{ use = "tokenize" }}]\n'
    project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { a = 1, b = 1 }\n" + TAIL)
    project.build()
    for name in "ab":
        project.jsonl(f"{name}.jsonl", [{"text": name * 12}])
    _, left = update_lock(project.recipe, ("a",))
    assert len(left) == 1
    assert "b.jsonl" in left[0]
    with pytest.raises(LockError, match=r"b\.jsonl"):
        project.build()
    assert update_lock(project.recipe, ("b",))[1] == ()
    assert project.build().built == 2


def test_an_empty_source_is_told_by_the_build(project: Any) -> None:
    project.write("x.jsonl", "")
    recipe = '[source.a]\nfiles = "x.jsonl"\nhandlers = [{ use = "tokenize" }]\n[mixture.train]\nweights = { a = 1 }\n'
    project.write("recipe.toml", HEAD + recipe + TAIL)
    with pytest.raises(BuildError, match=r"source\.a gives no example"):
        project.build()


def test_a_failure_is_told_even_if_a_split_waits_for_it(project: Any) -> None:
    project.jsonl("x.jsonl", [{"text": 3}])
    project.jsonl("y.jsonl", [{"text": "fine"}])
    source = '[source.{0}]\nfiles = {1}\npart_bytes = 4096\nsplit = {{ train = 0.5, rest = 0.5 }}\nhandlers = [{{ use = "tokenize" }}]\n'
    project.write(
        "recipe.toml",
        HEAD
        + source.format("a", '["x.jsonl"]')
        + source.format("b", '["x.jsonl", "y.jsonl"]')
        + "[mixture.train]\nweights = { a = 1, b = 1 }\n"
        + TAIL,
    )
    with pytest.raises(BuildError, match="text"):
        project.build()


@pytest.mark.parametrize("caught", ["Exception", "BaseException"])
def test_a_refusal_can_not_be_swallowed(project: Any, caught: str) -> None:
    project.jsonl("x.jsonl", [{"text": "abc"}])
    project.write(
        "h.py",
        f"import os\n\ndef f(r):\n    try:\n        os.listdir('.')\n    except {caught}:\n        pass\n    return r\n",
    )
    recipe = '[source.a]\nfiles = "x.jsonl"\nhandlers = [{ use = "h.py:f" }, { use = "tokenize" }]\n'
    project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { a = 1 }\n" + TAIL)
    with pytest.raises(BuildError, match=r"source\.a, part 0: h:f: user Python listed a directory"):
        project.build()


def test_workers_stand_in_the_same_directory_everywhere(project: Any) -> None:
    project.jsonl("x.jsonl", [{"text": "abc"}])
    project.write("h.py", "import os\n\ndef f(r):\n    return {'text': os.getcwd() + os.environ['HOME']}\n")
    recipe = '[source.a]\nfiles = "x.jsonl"\nhandlers = [{ use = "h.py:f" }, { use = "tokenize" }]\n'
    project.write("recipe.toml", HEAD + recipe + "[mixture.train]\nweights = { a = 1 }\n" + TAIL)
    project.build(jobs=1)
    assert texts(project, "a") == ["//nonexistent"]
