from __future__ import annotations

from pathlib import Path

import pytest

from dsbuild.errors import RecipeError
from dsbuild.recipe import load_recipe

DRV = "drv:" + "a" * 64


def mistakes(tmp_path: Path, body: str) -> list[tuple[str, str, str | None]]:
    path = tmp_path / "recipe.toml"
    path.write_text(f'dsbuild = 1\nname = "x"\n[examples]\nlength = 8\n{body}', "utf-8")
    try:
        load_recipe(path)
    except RecipeError as error:
        return [(d.kind, d.message, d.hint) for d in error.diagnostics]
    return []


def source(name: str, body: str = 'files = "a"') -> str:
    return f"[source.{name}]\n{body}\n"


def mixtures(**weights: str) -> str:
    return "".join(f"[mixture.{name}]\nweights = {{ {w} }}\n" for name, w in weights.items())


def stages(name: str, *weights: str) -> str:
    listed = ", ".join(f"{{ from = {n}, weights = {{ {w} }} }}" for n, w in enumerate(weights))
    return f"[mixture.{name}]\nstages = [{listed}]\n"


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (source("wiki_tokens") + mixtures(train="wiki_token = 1"), "unknown-node", "did you mean 'wiki_tokens'?"),
        (source("a") + mixtures(train="a = 1, zzzzzzz = 1"), "unknown-node", "sources here: a"),
        (source("a") + mixtures(train="a = 1", valid="train = 1"), "unknown-node", "this is a mixture"),
        (source("a") + mixtures(train=f'a = 1, "{DRV}" = 1'), "unknown-node", "make a source of it"),
        (source("a") + source("b", 'from = "aa"') + mixtures(train="b = 1"), "unknown-node", "did you mean 'a'?"),
        (source("a", 'from = "a"') + mixtures(train="a = 1"), "cycle", "a -> a"),
        (
            source("a", 'from = "b"') + source("b", 'from = ["c", "a"]') + source("c") + mixtures(train="a = 1"),
            "cycle",
            "a -> b -> a",
        ),
        (
            source("a", "files = 'a'\nsplit = { train = 0.5, dev = 0.5 }") + mixtures(valid="a = 1"),
            "unknown-node",
            "train, dev",
        ),
        (source("a") + mixtures(train="a = 1", valid="a = 1"), "leak", "shared = true"),
        (source("a") + source("b", 'from = "a"') + mixtures(train="a = 1", valid="b = 1"), "leak", "records of 'a'"),
        (
            source("a", f'from = "{DRV}"') + source("b", f'from = "{DRV}"') + mixtures(train="a = 1", valid="b = 1"),
            "leak",
            "'b'",
        ),
        (
            source("a", "files = 'a'\nsplit = { train = 0.5, valid = 0.5 }")
            + source("b", "from = 'a'\nsplit = { train = 0.4, valid = 0.6 }")
            + mixtures(train="a = 1", valid="b = 1"),
            "leak",
            "not the same splits",
        ),
        (
            source("a", "files = 'a'\nsplit = { train = 0.5, valid = 0.5 }")
            + source("b", "from = 'a'")
            + mixtures(train="a = 1", valid="b = 1"),
            "leak",
            "not the same splits",
        ),
        # the branch has other splits, not the source none
        (
            source("a", "files = 'a'\nsplit = { train = 0.5, valid = 0.5 }")
            + source("b", "from = 'a'\nsplit = { train = 0.4, valid = 0.6 }")
            + mixtures(train="a = 1, b = 1", valid="a = 1"),
            "leak",
            "source 'a' has records of 'b', which feeds 'train', and not the same splits",
        ),
        (
            source("a", "files = 'a'\nsplit = { train = 0.5, valid = 0.5 }")
            + source("b", "from = 'a'")
            + mixtures(train="b = 1, a = 1", valid="a = 1"),
            "leak",
            "source 'a' has records of 'b', which feeds 'train', and not the same splits",
        ),
        # counts take the lowest keys of each source's own records
        (
            source("a", "files = 'a'\nsplit = { train = 0.5, valid = 9 }")
            + source("b", "from = 'a'\nsplit = { train = 0.5, valid = 9 }")
            + mixtures(train="a = 1", valid="b = 1"),
            "leak",
            "equal counts of two sources take other records",
        ),
        (source("a") + source("b", 'from = "a"') + mixtures(train="b = 1", valid="a = 1"), "leak", "give both split"),
        (
            source("a") + mixtures(train="a = 1") + stages("valid", "a = 1"),
            "leak",
            "source 'a' has no splits and feeds 'train' too",
        ),
        (
            source("a") + source("b") + stages("train", "b = 1", "a = 1") + mixtures(valid="a = 1"),
            "leak",
            "source 'a' has no splits and feeds 'train' too",
        ),
        (source("a") + stages("train", "a = 1", "b = 1"), "unknown-node", "mixture.train.stages[1].weights.b"),
        (
            source("a") + source("b", "files = 'b'\nsplit = { dev = 0.5 }") + stages("train", "a = 1", "b = 1"),
            "unknown-node",
            "none of them is 'train'",
        ),
        (
            source("a") + source("b") + stages("train", "a = 1") + "max_epochs = { b = 2 }",
            "unknown-node",
            "mixture.train.max_epochs.b: this mixture weighs no such source",
        ),
    ],
)
def test_wrong(tmp_path: Path, body: str, kind: str, told: str) -> None:
    found = mistakes(tmp_path, body)
    assert [k for k, _, _ in found] == [kind]
    assert told in f"{found[0][1]} {found[0][2]}"


@pytest.mark.parametrize(
    "body",
    [
        source("a") + mixtures(train="a = 1"),
        source("a") + source("unused") + mixtures(train="a = 1"),
        source("a", "files = 'a'\nshared = true") + mixtures(train="a = 1", valid="a = 1"),
        source("a", "files = 'a'\nshared = true") + source("b", 'from = "a"') + mixtures(train="a = 1", valid="b = 1"),
        source("a", "files = 'a'\nsplit = { train = 0.5, valid = 0.5 }") + mixtures(train="a = 1", valid="a = 1"),
        source("a", "files = 'a'\nsplit = { train = 0.5, valid = 0.5 }")
        + source("b", "from = 'a'\nsplit = { train = 0.50, valid = 0.5 }")
        + mixtures(train="a = 1", valid="b = 1"),
        source("a") + source("b") + mixtures(train="a = 1", valid="b = 1"),
        source("a") + source("b", 'from = "a"') + source("c", 'from = ["a", "b"]') + mixtures(train="b = 1, c = 2"),
        source("a", f'from = "{DRV}"') + mixtures(train="a = 1"),
        source("a", "files = 'a'\nsplit = { train = 0.5, valid = 9 }") + mixtures(train="a = 1", valid="a = 1"),
        source("a", "files = 'a'\nsplit = { train = 1.0, valid = 9 }")
        + source("b")
        + stages("train", "a = 1", "b = 1")
        + stages("valid", "a = 1", "a = 2"),
        source("a") + source("b") + stages("train", "a = 1", "b = 1, a = 1") + "max_epochs = { b = 2 }",
    ],
)
def test_right(tmp_path: Path, body: str) -> None:
    assert mistakes(tmp_path, body) == []


def test_all_cycles_and_unknown_names_in_one_run(tmp_path: Path) -> None:
    body = source("a", 'from = "a"') + source("b", 'from = "c"') + source("c", 'from = "b"') + source("d", 'from = "q"')
    found = mistakes(tmp_path, body + mixtures(train="a = 1, q = 1"))
    assert sorted(k for k, _, _ in found) == ["cycle", "cycle", "unknown-node", "unknown-node"]
