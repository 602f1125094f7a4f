"""Derivations of the stream: what each key of the recipe adds to the hash, and what adds nothing."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dsbuild.errors import RecipeError
from dsbuild.graph import Derivation, ViewSize, mixture_of, parse
from dsbuild.order.mix import Mixture, Stage
from dsbuild.recipe import load_recipe

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stages": {"mixture.train": {"stages": [{"from": 0, "weights": {"a": 1}}, {"from": 9, "weights": {"b": 1}}]}},
    "stages-later": {
        "mixture.train": {"stages": [{"from": 0, "weights": {"a": 1}}, {"from": 10, "weights": {"b": 1}}]}
    },
    "tokens": {"mixture.train.by": "tokens"},
    "caps": {"mixture.train.max_epochs": {"a": 2}},
    "caps-of-another": {"mixture.train.max_epochs": {"b": 2}},
    "caps-half": {"mixture.train.max_epochs": {"a": 0.5}},
    "fit": {"examples.pack": "fit"},
    "fit-cut": {"examples.pack": "fit", "examples.overlong": "cut"},
    "fit-drop": {"examples.pack": "fit", "examples.overlong": "drop"},
    "none": {"examples.pack": "none"},
    "none-cut": {"examples.pack": "none", "examples.overlong": "cut"},
    "none-cut-tokens": {"examples.pack": "none", "examples.overlong": "cut", "mixture.train.by": "tokens"},
    "none-drop": {"examples.pack": "none", "examples.overlong": "drop"},
    "block": {"examples.shuffle": {"block": 64, "window": 8}},
    "block-wider": {"examples.shuffle": {"block": 64, "window": 9}},
    "era": {"examples.shuffle": {"era": 64}},
    "unshuffled": {"examples.shuffle": "none"},
    "shares": {"source.a.split": {"train": 0.9, "valid": 0.1}},
    "counts": {"source.a.split": {"train": 0.9, "valid": 10}},
    "counts-rest": {"source.a.split": {"train": 1.5e0 - 0.5, "valid": 10}},
    "counts-one": {"source.a.split": {"train": 1, "valid": 10}},
    "dealt": {"source.a.order": {"interleave": 4}},
}


def test_every_form_has_its_own_hash(made: Any) -> None:
    hashes = {name: made(changes).graph.output for name, changes in FORMS.items()}
    assert len(set(hashes.values())) == len(hashes)


@pytest.mark.parametrize("name", FORMS)
def test_every_derivation_can_be_read_again(made: Any, name: str) -> None:
    graph = made(FORMS[name]).graph
    for digest, derivation in graph.derivations.items():
        assert parse(derivation.canonical) == Derivation(
            kind=derivation.kind,
            builder=derivation.builder,
            arguments=parse(derivation.canonical).arguments,
            inputs=derivation.inputs,
        )
        assert parse(derivation.canonical).digest == digest
    assert graph.closure(graph.output) == tuple(graph.derivations)
    assert all(graph.label(digest) != digest.short for digest in graph.derivations)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"mixture.train.weights": {"c": 0.1, "a": 0.7, "b": 0.2}}),
        ({}, {"mixture.train": {"stages": [{"from": 0, "weights": {"a": 0.7, "b": 0.2, "c": 0.1}}]}}),
        (
            {"mixture.train": {"stages": [{"from": 0, "weights": {"a": 7, "b": 3}}, {"from": 9, "weights": {"c": 5}}]}},
            {
                "mixture.train": {
                    "stages": [{"weights": {"b": 0.3, "a": 0.7}, "from": 0}, {"from": 9, "weights": {"c": 0.25}}]
                }
            },
        ),
        ({"mixture.train.by": "records"}, {}),
        ({"mixture.train.max_epochs": {"a": 2, "b": 0.5}}, {"mixture.train.max_epochs": {"b": 0.5, "a": 2.0}}),
        # one source has every example, whatever its weights
        ({"mixture.train": {"weights": {"a": 3}}}, {"mixture.train": {"weights": {"a": 1}, "by": "tokens"}}),
        (
            {"mixture.train": {"weights": {"a": 3}}},
            {"mixture.train": {"stages": [{"from": 0, "weights": {"a": 1}}, {"from": 9, "weights": {"a": 2}}]}},
        ),
        (
            {"mixture.train": {"weights": {"a": 1}}, "examples": {"length": 8, "pack": "none", "overlong": "cut"}},
            {
                "mixture.train": {"weights": {"a": 1}, "by": "tokens"},
                "examples": {"length": 8, "pack": "none", "overlong": "cut"},
            },
        ),
        ({"examples.pack": "none"}, {"examples.pack": "none", "examples.pad": {"input_ids": 128}}),
        ({"examples.pack": "fit"}, {"examples.pack": "fit", "examples.overlong": "error"}),
        (
            {"source.a.split": {"train": 0.9, "valid": 10}},
            {"source.a.split": {"valid": 10, "train": 0.90}},
        ),
        # names of sources
        (
            {},
            {
                "source": {
                    "z": {"files": "a.txt", "handlers": [{"use": "tokenize"}]},
                    "y": {"files": "b.jsonl", "handlers": [{"use": "tokenize"}]},
                    "a": {"files": "c.jsonl", "handlers": [{"use": "tokenize"}]},
                },
                "mixture.train.weights": {"z": 7, "y": 2, "a": 1},
            },
        ),
        (
            {
                "mixture.train.stages": [{"from": 0, "weights": {"a": 7}}, {"from": 9, "weights": {"b": 2, "c": 1}}],
                "mixture.train.weights": None,
                "mixture.train.max_epochs": {"b": 2},
            },
            {
                "source": {
                    "z": {"files": "a.txt", "handlers": [{"use": "tokenize"}]},
                    "y": {"files": "b.jsonl", "handlers": [{"use": "tokenize"}]},
                    "a": {"files": "c.jsonl", "handlers": [{"use": "tokenize"}]},
                },
                "mixture.train.stages": [{"from": 0, "weights": {"z": 7}}, {"from": 9, "weights": {"y": 2, "a": 1}}],
                "mixture.train.weights": None,
                "mixture.train.max_epochs": {"y": 2},
            },
        ),
    ],
)
def test_what_changes_no_hash(made: Any, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert made(one).graph.output == made(other).graph.output


def test_a_recipe_in_toml_has_the_same_hash(made: Any, instance: Any, tmp_path: Path) -> None:
    changes = {
        "mixture.train": {"stages": [{"from": 0, "weights": {"a": 1, "b": 0.5}}], "max_epochs": {"a": 1.5}},
        "examples": {"length": 128, "pack": "fit", "shuffle": {"block": 64, "window": 8}},
        "source.c": None,
    }
    twin = made(changes)
    path = tmp_path / "other.toml"
    path.write_text(
        """
        dsbuild = 1
        name = "stream"
        seed = 7
        source.a = { files = "a.txt", handlers = [{ use = "tokenize" }] }
        source.b = { files = "b.jsonl", handlers = [{ use = "tokenize" }] }
        examples = { length = 128, pack = "fit", shuffle = { window = 8, block = 64 } }
        tokenizer = { file = "bytes" }
        [mixture.train]
        max_epochs = { a = 1.50 }
        [[mixture.train.stages]]
        weights = { b = 0.50, a = 1.0 }
        from = 0
        """,
        "utf-8",
    )
    recipe, from_json = load_recipe(path), load_recipe(tmp_path / "recipe.json")
    assert recipe.mixtures == from_json.mixtures
    assert recipe.examples == from_json.examples
    assert instance(path).graph.output == twin.graph.output


def test_stages(made: Any, parts: Any) -> None:
    stages = [{"from": 0, "weights": {"a": 0.75, "b": 0.25}}, {"from": 1000, "weights": {"c": 5, "b": 10}}]
    instance = made({"mixture.train": {"stages": stages, "by": "tokens", "max_epochs": {"b": 1.5}}})
    (mixture,) = parts(instance)["mixture"]
    names = [instance.graph.label(d).removeprefix("source.") for d in mixture.references()]
    assert sorted(names) == ["a", "b", "c"]
    assert list(mixture.inputs) == sorted(mixture.inputs)
    views = dict(zip(names, mixture.inputs, strict=True))
    first, second = {"a": 3, "b": 1, "c": 0}, {"a": 0, "b": 2, "c": 1}
    assert mixture.arguments == {
        "split": "train",
        "stages": [
            {"from": 0, "weights": [first[n] for n in names]},
            {"from": 1000, "weights": [second[n] for n in names]},
        ],
        "by": "tokens",
        "seed": 7,
        "mix": 1,
        "max_epochs": {views["b"]: Fraction(3, 2)},
    }


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, ["records"]),
        ({"examples.pack": "none"}, ["records"]),
        ({"examples.pack": "none", "examples.overlong": "cut"}, ["records"]),
        ({"examples.pack": "none", "examples.overlong": "drop"}, ["pack", "records"]),
        ({"examples.pack": "fit"}, ["pack", "records"]),
        ({"examples.pack": "fit", "source.a.split": {"train": 0.5}}, ["pack", "split", "records"]),
        ({"examples.pack": "fit", "source.a.order": {"interleave": 3}}, ["order", "pack", "records"]),
        (
            {"examples.pack": "fit", "source.a.order": {"interleave": 3}, "source.a.split": {"train": 5}},
            ["order", "pack", "split", "records"],
        ),
    ],
)
def test_views(made: Any, parts: Any, changes: dict[str, Any], kinds: list[str]) -> None:
    instance = made({"mixture.train.weights": {"a": 1}, **changes})
    (mixture,) = parts(instance)["mixture"]
    (at,) = mixture.references()
    found = []
    while instance.graph.derivations[at].kind != "records":
        found.append(instance.graph.derivations[at].kind)
        (at,) = instance.graph.derivations[at].references()
    assert [*found, "records"] == kinds


def test_cut_records_weighed_by_tokens_are_counted(made: Any, parts: Any) -> None:
    """The tokens that are served are known from an index only."""
    changes = {"examples.pack": "none", "examples.overlong": "cut", "mixture.train.by": "tokens"}
    packs = parts(made(changes))["pack"]
    assert [(p.builder, p.arguments) for p in packs] == [("each@1", {"length": 128, "overlong": "cut"})] * 3


EPOCHS: list[list[dict[str, Any]]] = [
    [
        {},
        {"until": "first"},
        {"until": "all"},
        {"until": {"epochs": 1}},
        {"max_epochs": {"a": 1}},
        {"max_epochs": {"a": 5}},
        {"until": "first", "max_epochs": {"a": 1.5}},
        {"until": {"epochs": 3}, "max_epochs": {"a": 1}},
    ],
    [
        {"until": {"epochs": 2.5}},
        {"until": {"epochs": 2.5}, "max_epochs": {"a": 2.5}},
        {"until": {"epochs": 2.5}, "max_epochs": {"a": 9}},
        {"until": {"epochs": 4}, "max_epochs": {"a": 2.5}},
    ],
    [
        {"max_epochs": {"a": 0.35}},
        {"until": "first", "max_epochs": {"a": 0.35}},
        {"until": {"epochs": 0.35}},
        {"until": {"epochs": 7}, "max_epochs": {"a": 0.35}},
    ],
]


def stream_of(keys: dict[str, Any], length: int) -> Mixture:
    """The stream of one source of ``length`` that the keys define, taken as they are written."""
    until, cap = keys.get("until", "all"), keys.get("max_epochs", {}).get("a")
    return Mixture(
        ids=(b"a",),
        lengths=(length,),
        stages=(Stage(first=0, weights=(1,), phases=(5,)),),
        caps=(None if cap is None else int(Fraction(str(cap)) * length),),
        until=until if isinstance(until, str) else Fraction(str(until["epochs"])),
    )


@pytest.mark.parametrize("alike", EPOCHS)
def test_of_one_source_equal_streams_have_equal_hashes(made: Any, parts: Any, alike: list[dict[str, Any]]) -> None:
    instances = [made({"mixture.train": {"weights": {"a": 1}, **keys}}) for keys in alike]
    assert len({i.graph.output for i in instances}) == 1
    (mixture,) = parts(instances[0])["mixture"]
    for length in (1, 2, 3, 7, 10, 101):
        want = (
            mixture_of(mixture, "train", [ViewSize(label="a", examples=length, tokens=length)])
            if (stream_of(alike[0], length).length)
            else None
        )
        for keys in alike:
            found = stream_of(keys, length)
            assert found.length is not None
            if want is None:
                assert found.length == 0
            else:
                assert found.length == want.length
                for one, other in zip(found.locate(0, found.length), want.locate(0, found.length), strict=True):
                    assert one.tolist() == other.tolist()


def test_of_one_source_other_streams_have_other_hashes(made: Any) -> None:
    keys = [alike[0] for alike in EPOCHS]
    assert len({made({"mixture.train": {"weights": {"a": 1}, **k}}).graph.output for k in keys}) == len(keys)


def test_of_two_sources_ends_and_caps_keep_their_hashes(made: Any) -> None:
    """With two, a cap of five epochs is none of one: the longer source decides how often the other is begun again."""
    keys = [alike for group in EPOCHS for alike in group]
    hashes = {made({"mixture.train": {"weights": {"a": 1, "b": 1}, **k}}).graph.output for k in keys}
    assert len(hashes) == len(keys) - 1  # "all" is the default


def test_packs(made: Any, parts: Any) -> None:
    fit = {"examples.pack": "fit", "mixture.train.weights": {"a": 1}}
    none = {"examples.pack": "none", "mixture.train.weights": {"a": 1}}
    for changes, builder, arguments in (
        (fit, "fit@1", {"length": 128}),
        ({**fit, "examples.overlong": "cut"}, "fit@1", {"length": 128, "overlong": "cut"}),
        ({**fit, "examples.overlong": "drop"}, "fit@1", {"length": 128, "overlong": "drop"}),
        ({**none, "examples.overlong": "drop"}, "each@1", {"length": 128, "overlong": "drop"}),
    ):
        (pack,) = parts(made(changes))["pack"]
        assert (pack.builder, pack.arguments) == (builder, arguments)


def test_two_mixtures_share_a_pack(made: Any, parts: Any) -> None:
    """What packs a source's records belongs to no mixture."""
    changes = {"examples.pack": "fit", "source.a.shared": True, "mixture.valid.weights": {"a": 1}}
    found = parts(made(changes))
    assert len(found["mixture"]) == 2
    assert len(found["pack"]) == 3


def test_splits(made: Any, parts: Any) -> None:
    (shares,) = parts(made({"source.a.split": {"train": 0.75, "valid": 0.25}}))["split"]
    assert shares.arguments == {"name": "train", "low": 0, "high": 3 << 62}
    (counts,) = parts(made({"source.a.split": {"train": 0.75, "valid": 100, "test": 7}}))["split"]
    assert counts.arguments == {
        "name": "train",
        "counts": {"valid": 100, "test": 7},
        "fractions": {"train": Fraction(3, 4)},
    }
    (only,) = parts(made({"source.a.split": {"train": 9}}))["split"]
    assert only.arguments == {"name": "train", "counts": {"train": 9}, "fractions": {}}
    assert parse(only.canonical) == only


def test_datasets(made: Any, parts: Any) -> None:
    def dataset(changes: dict[str, Any]) -> Any:
        (found,) = parts(made(changes))["dataset"]
        return found.arguments

    plain = {"length": 128, "pack": "concat", "shuffle": "full", "seed": 7, "versions": {"pack": 1, "permute": 1}}
    assert dataset({}) == plain
    assert dataset({"examples.shuffle": "none"}) == {
        "length": 128,
        "pack": "concat",
        "shuffle": "none",
        "versions": {"pack": 1},
    }
    assert dataset({"examples.shuffle": {"block": 9, "window": 2}}) == plain | {
        "shuffle": {"block": 9, "window": 2},
        "versions": {"pack": 1, "permute": 1, "block": 1},
    }
    assert dataset({"examples.shuffle": {"era": 9}}) == plain | {
        "shuffle": {"era": 9},
        "versions": {"pack": 1, "permute": 1, "era": 1},
    }
    assert dataset({"examples.pack": "fit", "examples.mask": "document", "tokenizer.pad": "<pad>"}) == plain | {
        "pack": "fit",
        "mask": "document",
        "pad": 258,
    }


def test_all_sources_of_one_view_are_told(made: Any) -> None:
    twin = {"files": "a.txt", "handlers": [{"use": "tokenize"}], "shared": True}
    changes = {
        "source.a.shared": True,
        "source.twin": twin,
        "source.third": twin,
        "mixture.train": {"stages": [{"from": 0, "weights": {"a": 1}}, {"from": 9, "weights": {"b": 1, "twin": 1}}]},
        "mixture.valid.weights": {"third": 1, "twin": 1},
    }
    with pytest.raises(RecipeError) as caught:
        made(changes)
    told = [(d.kind, d.message) for d in caught.value.diagnostics]
    assert told == [
        ("conflict", "mixture.train.weights: a and twin are the same records"),
        ("conflict", "mixture.valid.weights: third and twin are the same records"),
    ]
    assert all(d.where is not None and d.where.line for d in caught.value.diagnostics)
