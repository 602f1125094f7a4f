from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import tomli

from dsbuild.errors import RecipeError
from dsbuild.recipe import BlockShuffle, EraShuffle, HandlerSpec, Recipe, StageSpec, load_recipe
from dsbuild.recipe.mixture import MIXTURE_KEYS
from dsbuild.recipe.nodes import EXAMPLES_KEYS, TOKENIZER_KEYS
from dsbuild.recipe.parse import TOP_KEYS
from dsbuild.recipe.source import SOURCE_KEYS
from dsbuild.recipe.table import MOST

FULL = """
dsbuild = 1
name = "full.v1"
seed = 9223372036854775807
description = "all keys"
now = 2026-11-21

[tokenizer]
file = "tok/tokenizer.json"
eos = "</s>"
bos = "<s>"
pad = "<pad>"
special = "token"

[source.web]
files = ["lake/**/*.jsonl", "/data/more"]
handlers = [
  { use = "keep", where = "len(text) >= 200" },
  { use = "py/clean.py:clean", requires = ["ftfy"], reads = "words.txt", share = 0.10, deep = { list = [1, 2.5] } },
]
split = { train = 0.999, valid = 0.001 }
order = { interleave = 64 }
format = "jsonl"
read = { column = "text", limit = 1.5 }
on_error = "skip"
part_bytes = 4096
shared = true

[source.both]
from = ["web", "drv:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]
split = { train = 1.0, valid = 250 }
order = "files"
shared = true

[mixture.train]
stages = [{ from = 0, weights = { web = 0.7, both = 3 } }, { from = 1_000_000, weights = { both = 0.5 } }]
until = { epochs = 1.5 }
by = "tokens"
max_epochs = { web = 2, both = 0.25 }

[mixture.valid]
weights = { web = 1 }
until = "first"
by = "records"

[examples]
length = 2048
pack = "none"
mask = "prefix"
shuffle = { block = 1024, window = 64 }
overlong = "drop"
columns = ["input_ids", "labels", "audio"]
pad = { audio = 3000, input_ids = 2048 }
"""

SMALL = """
dsbuild = 1
name = "small"
[source.web]
files = "a.jsonl"
[mixture.train]
weights = { web = 1 }
[examples]
length = 8
"""


def load(tmp_path: Path, text: str, name: str = "recipe.toml") -> Recipe:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return load_recipe(path)


def kinds(tmp_path: Path, text: str, name: str = "recipe.toml") -> list[str]:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, text, name)
    return [d.kind for d in caught.value.diagnostics]


def as_json(tree: Any) -> str:
    """JSON with decimals as written."""
    if isinstance(tree, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{as_json(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(as_json, tree)) + "]"
    return str(tree) if isinstance(tree, Decimal) else json.dumps(tree, default=str)


def test_every_key(tmp_path: Path) -> None:
    recipe = load(tmp_path, FULL)
    assert (recipe.name, recipe.seed, recipe.description, recipe.now) == (
        "full.v1",
        2**63 - 1,
        "all keys",
        "2026-11-21",
    )
    assert recipe.tokenizer is not None
    assert (recipe.tokenizer.eos, recipe.tokenizer.bos, recipe.tokenizer.pad) == ("</s>", "<s>", "<pad>")
    assert (recipe.tokenizer.file, recipe.tokenizer.special) == ("tok/tokenizer.json", "token")
    web = recipe.sources["web"]
    assert web.files == ("lake/**/*.jsonl", "/data/more")
    assert web.handlers == (
        HandlerSpec(use="keep", arguments={"where": "len(text) >= 200"}),
        HandlerSpec(
            use="py/clean.py:clean",
            arguments={"share": Fraction(1, 10), "deep": {"list": (1, Fraction(5, 2))}},
            requires=("ftfy",),
            reads=("words.txt",),
        ),
    )
    assert web.handlers[1].python == ("py/clean.py", "clean")
    assert web.split == {"train": Fraction(999, 1000), "valid": Fraction(1, 1000)}
    assert (web.interleave, web.format, web.on_error, web.part_bytes, web.shared) == (64, "jsonl", "skip", 4096, True)
    assert web.read == {"column": "text", "limit": Fraction(3, 2)}
    both = recipe.sources["both"]
    assert both.inputs[0] == "web"
    assert both.interleave == 0
    assert both.split == {"train": Fraction(1), "valid": 250}
    assert [type(share) for share in both.split.values()] == [Fraction, int]
    train, valid = recipe.mixtures["train"], recipe.mixtures["valid"]
    assert train.stages == (
        StageSpec(first=0, weights={"web": Fraction(7, 10), "both": Fraction(3)}),
        StageSpec(first=1_000_000, weights={"both": Fraction(1, 2)}),
    )
    assert (train.until, train.by) == (Fraction(3, 2), "tokens")
    assert train.max_epochs == {"web": 2, "both": Fraction(1, 4)}
    assert train.sources == ("web", "both")
    assert train.place("both") == ("mixture", "train", "stages", 0, "weights", "both")
    assert valid.stages == (StageSpec(first=0, weights={"web": Fraction(1)}),)
    assert (valid.until, valid.by, valid.max_epochs) == ("first", "records", {})
    assert valid.place("web") == ("mixture", "valid", "weights", "web")
    examples = recipe.examples
    assert (examples.length, examples.pack, examples.mask) == (2048, "none", "prefix")
    assert examples.shuffle == BlockShuffle(block=1024, window=64)
    assert (examples.overlong, examples.columns) == ("drop", ("input_ids", "labels", "audio"))
    assert examples.pad == {"audio": 3000, "input_ids": 2048}


def test_defaults(tmp_path: Path) -> None:
    recipe = load(tmp_path, SMALL)
    assert (recipe.seed, recipe.now, recipe.tokenizer, recipe.description) == (0, None, None, None)
    web = recipe.sources["web"]
    assert (web.files, web.split, web.interleave, web.on_error, web.part_bytes) == (
        ("a.jsonl",),
        {},
        0,
        "error",
        64 << 20,
    )
    train = recipe.mixtures["train"]
    assert (train.until, train.by, train.max_epochs) == ("all", "records", {})
    examples = recipe.examples
    assert (examples.pack, examples.mask, examples.shuffle, examples.overlong) == ("concat", "none", "full", "error")
    assert (examples.columns, examples.pad) == ((), {})


@pytest.mark.parametrize("text", [FULL, SMALL])
def test_json_twin(tmp_path: Path, text: str) -> None:
    recipe = load(tmp_path, text)
    twin = load(tmp_path, as_json(tomli.loads(text, parse_float=Decimal)), "recipe.json")
    for name in ("name", "seed", "description", "now", "tokenizer", "sources", "mixtures", "examples"):
        assert getattr(twin, name) == getattr(recipe, name)
    assert twin.where("mixture", "train", "weights", "web").line == 1


def test_places(tmp_path: Path) -> None:
    recipe = load(tmp_path, FULL)
    lines = FULL.split("\n")

    def marked(where: Any) -> str:
        assert where.text == lines[where.line - 1]
        return where.text[where.column - 1 : where.column - 1 + where.width]

    assert marked(recipe.where("source", "web", "handlers", 1, "use")) == '"py/clean.py:clean"'
    assert marked(recipe.where_key("source", "web", "handlers", 1, "share")) == "share"
    assert marked(recipe.where("source", "web", "handlers", 1, "share")) == "0.10"
    assert marked(recipe.where("source", "web", "handlers", 1, "nothing")).startswith("{ use")
    assert marked(recipe.where("source", "web", "files", 1)) == '"/data/more"'
    assert marked(recipe.where("source", "both")) == "both"
    assert marked(recipe.where("now")) == "2026-11-21"
    assert marked(recipe.where_key("mixture", "train", "stages", 1, "weights", "both")) == "both"
    assert marked(recipe.where("mixture", "train", "stages", 1, "from")) == "1_000_000"
    assert marked(recipe.where_key("examples", "pad", "audio")) == "audio"
    assert str(recipe.where("nothing")) == str(recipe.path)


@pytest.mark.parametrize("number", ["0.10", "1e-1", "0.1", "100e-3"])
def test_numbers_are_exact(tmp_path: Path, number: str) -> None:
    recipe = load(tmp_path, SMALL.replace("web = 1", f"web = {number}"))
    assert recipe.mixtures["train"].stages[0].weights["web"] == Fraction(1, 10)


def typos() -> list[tuple[str, str]]:
    found = []
    for header, keys in (
        ("", TOP_KEYS),
        ("tokenizer", TOKENIZER_KEYS),
        ("source.web", SOURCE_KEYS),
        ("mixture.train", MIXTURE_KEYS),
        ("examples", EXAMPLES_KEYS),
    ):
        found += [(header, key) for key in keys if len(key) > 3]
    return found


@pytest.mark.parametrize(("header", "key"), typos())
def test_a_typo_in_every_key_is_named(tmp_path: Path, header: str, key: str) -> None:
    wrong = key[:-2] + key[-1] + key[-2] + "s"
    tree = tomli.loads(FULL, parse_float=Decimal)
    table = tree
    for part in header.split(".") if header else ():
        table = table[part]
    table[wrong] = table.pop(key, 1)
    path = tmp_path / "recipe.json"
    path.write_text(as_json(tree), "utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    named = [d for d in caught.value.diagnostics if d.kind == "unknown-key"]
    assert len(named) == 1
    assert named[0].hint == f"did you mean '{key}'?"
    assert named[0].message.startswith(f"{header}.{wrong}" if header else wrong)
    assert named[0].where is not None
    assert named[0].where.width == len(wrong) + 2


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("dsbuild = 1", "dsbuild = 2", "bad-value"),
        ("dsbuild = 1", "dsbuild = '1'", "bad-type"),
        ("dsbuild = 1", "", "missing-key"),
        ("dsbuild = 1", "dsbuild = true", "bad-type"),
        ('name = "small"', 'name = ""', "bad-name"),
        ('name = "small"', 'name = "../x"', "bad-name"),
        ('name = "small"', 'name = "-"', "bad-name"),
        ('name = "small"', f'name = "{"x" * 65}"', "bad-name"),
        ('name = "small"', "name = 7", "bad-type"),
        ('name = "small"', 'name = "small"\nseed = 9223372036854775808', "bad-value"),
        ('name = "small"', 'name = "small"\nseed = 1.0', "bad-type"),
        ('name = "small"', 'name = "small"\nseed = true', "bad-type"),
        ('name = "small"', 'name = "small"\nnow = 2026-01-01T00:00:00', "bad-type"),
        ('name = "small"', 'name = "small"\nnow = "2026-1-1"', "bad-value"),
        ('name = "small"', 'name = "small"\nnow = "20260101"', "bad-value"),
        ('name = "small"', 'name = "small"\nnow = ""', "bad-value"),
        ('name = "small"', 'name = "small"\nmixtures = 1', "unknown-key"),
        ('name = "small"', 'name = "small"\nlength = 1', "unknown-key"),
        ('name = "small"', 'name = "small"\ntokenizer = "bytes"', "bad-type"),
        ('name = "small"', 'name = "small"\ntokenizer = { eos = "x" }', "missing-key"),
        ('name = "small"', 'name = "small"\ntokenizer = { file = "bytes", special = "txt" }', "bad-value"),
        ('name = "small"', 'name = "small"\ntokenizer = { file = "hf://a/b" }', "not-yet"),
        ('name = "small"', 'name = "small"\ntokenizer = { file = "bytes", eos = "" }', "bad-value"),
        ("[mixture.train]", "[mixture.'a b']", "bad-name"),
        ("[source.web]", "[source.-a]\nfiles = 'b'\n[source.web]", "bad-name"),
        ("[source.web]", "[source]\nx = 5\n[source.web]", "bad-type"),
        ('files = "a.jsonl"', "", "missing-key"),
        ('files = "a.jsonl"', "files = []", "bad-value"),
        ('files = "a.jsonl"', 'files = ""', "bad-value"),
        ('files = "a.jsonl"', "files = 1", "bad-type"),
        ('files = "a.jsonl"', 'files = ["a", 1]', "bad-type"),
        ('files = "a.jsonl"', 'files = ["a", "a"]', "conflict"),
        ('files = "a.jsonl"', 'files = "a\\u0000b"', "bad-value"),
        ('files = "a.jsonl"', 'files = "file:///a"', "bad-value"),
        ('files = "a.jsonl"', 'files = "ftp://a"', "bad-value"),
        *[('files = "a.jsonl"', f'files = "{s}://a/b"', "not-yet") for s in ("http", "https", "s3", "gs", "hf")],
        ('files = "a.jsonl"', f'files = "a"\nfrom = "drv:{"a" * 64}"', "conflict"),
        ('files = "a.jsonl"', 'from = "b3:00"', "bad-value"),
        ('files = "a.jsonl"', f'from = "drv:{"A" * 64}"', "bad-value"),
        ('files = "a.jsonl"', f'from = "drv:{"a" * 64}"\nformat = "jsonl"', "conflict"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = {}', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = ["keep"]', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ name = 1 }]', "missing-key"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "" }]', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "a.py" }]', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "a.py:1x" }]', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "keep", reads = "x" }]', "conflict"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "a.py:f", reads = ["https://x/y"] }]', "not-yet"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "x", at = 12:00:00 }]', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "x", at = nan }]', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nhandlers = [{ use = "x", at = 1e999 }]', "bad-value"),
        ('files = "a.jsonl"', f'files = "a"\nhandlers = [{{ use = "x", at = 0x{"f" * 4000} }}]', "bad-value"),
        ('files = "a.jsonl"', f'files = "a"\nhandlers = [{{ use = "x", at = 0.{"1" * 4000} }}]', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = 0, valid = 0.5 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = -1, valid = 5 }', "bad-value"),
        ('files = "a.jsonl"', f'files = "a"\nsplit = {{ train = {(1 << 60) + 1} }}', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = true }', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = 1.0, valid = 5, test = 0.1 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = 1.01, valid = 5 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = 1.0 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = 0.0 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = -0.5 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = 0.6, valid = 0.4000000000000000000001 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { train = "0.5" }', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = {}', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nsplit = { "a b" = 0.5, train = 0.5 }', "bad-name"),
        ('files = "a.jsonl"', 'files = "a"\norder = "file"', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\norder = { interleave = 0 }', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\norder = {}', "missing-key"),
        ('files = "a.jsonl"', 'files = "a"\norder = 3', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\npart_bytes = 4095', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nshared = "yes"', "bad-type"),
        ('files = "a.jsonl"', 'files = "a"\nformat = ""', "bad-value"),
        ('files = "a.jsonl"', 'files = "a"\nread = "text"', "bad-type"),
        ("weights = { web = 1 }", "", "missing-key"),
        ("weights = { web = 1 }", "weights = {}", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 0.0 }", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = -1 }", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = inf }", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = true }", "bad-type"),
        ("weights = { web = 1 }", 'weights = ["web"]', "bad-type"),
        ("weights = { web = 1 }", "weights = { web = 1e-300, b = 1 }\n[source.b]\nfiles = 'b'", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nstages = [{ from = 0, weights = { web = 1 } }]", "conflict"),
        ("weights = { web = 1 }", "stages = []", "bad-value"),
        ("weights = { web = 1 }", "stages = { from = 0, weights = { web = 1 } }", "bad-type"),
        ("weights = { web = 1 }", "stages = [1]", "bad-type"),
        ("weights = { web = 1 }", "stages = [{ weights = { web = 1 } }]", "missing-key"),
        ("weights = { web = 1 }", "stages = [{ from = 0 }]", "missing-key"),
        ("weights = { web = 1 }", "stages = [{ from = 0, weights = {} }]", "bad-value"),
        ("weights = { web = 1 }", "stages = [{ from = 0, weights = 1 }]", "bad-type"),
        ("weights = { web = 1 }", "stages = [{ from = 0, weights = { web = 0 } }]", "bad-value"),
        ("weights = { web = 1 }", "stages = [{ from = 0, weights = { wbe = 1 } }]", "unknown-node"),
        ("weights = { web = 1 }", "stages = [{ frm = 0, weights = { web = 1 } }]", "unknown-key"),
        ("weights = { web = 1 }", 'stages = [{ from = 0, weights = { web = 1 }, by = "tokens" }]', "unknown-key"),
        *[
            ("weights = { web = 1 }", f"stages = [{{ from = {first}, weights = {{ web = 1 }} }}]", kind)
            for first, kind in (
                ("1", "bad-value"),
                ("-1", "bad-value"),
                ("0.0", "bad-type"),
                ("true", "bad-type"),
                ('"0"', "bad-type"),
            )
        ],
        *[
            (
                "weights = { web = 1 }",
                f"[[mixture.train.stages]]\nfrom = 0\nweights.web = 1\n[[mixture.train.stages]]\nfrom = 9\n"
                f"weights.web = 2\n[[mixture.train.stages]]\nfrom = {first}\nweights.web = 3",
                "bad-value",
            )
            for first in (0, 8, 9, (1 << 60) + 1)
        ],
        ("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = 2", "bad-type"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = {}", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = { web = 0 }", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = { web = -1.5 }", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = { web = nan }", "bad-value"),
        ("weights = { web = 1 }", 'weights = { web = 1 }\nmax_epochs = { web = "2" }', "bad-type"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = { wbe = 2 }", "unknown-node"),
        (
            "weights = { web = 1 }",
            "weights = { web = 1 }\nmax_epochs = { other = 2 }\n[source.other]\nfiles = 'b'",
            "unknown-node",
        ),
        ("weights = { web = 1 }", 'weights = { web = 1 }\nby = "bytes"', "bad-value"),
        ("weights = { web = 1 }", 'weights = { web = 1 }\nuntil = "last"', "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nuntil = { epochs = 0 }", "bad-value"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nuntil = {}", "missing-key"),
        ("weights = { web = 1 }", "weights = { web = 1 }\nuntil = 3", "bad-type"),
        ("length = 8", "", "missing-key"),
        ("length = 8", "length = 0", "bad-value"),
        ("length = 8", "length = 8.0", "bad-type"),
        ("length = 8", 'length = 8\npack = "concatenate"', "bad-value"),
        ("length = 8", "length = 8\npack = 1", "bad-type"),
        ("length = 8", 'length = 8\nmask = "causal"', "bad-value"),
        ("length = 8", 'length = 8\nmask = "prefix"', "conflict"),
        ("length = 8", 'length = 8\npack = "concat"\nmask = "prefix"', "conflict"),
        ("length = 8", "length = 8\nshuffle = { ear = 4 }", "unknown-key"),
        ("length = 8", "length = 8\nshuffle = {}", "missing-key"),
        ("length = 8", "length = 8\nshuffle = true", "bad-type"),
        ("length = 8", 'length = 8\nshuffle = "block"', "bad-value"),
        ("length = 8", "length = 8\nshuffle = { block = 4 }", "missing-key"),
        ("length = 8", "length = 8\nshuffle = { window = 4 }", "missing-key"),
        ("length = 8", "length = 8\nshuffle = { block = 0, window = 2 }", "bad-value"),
        ("length = 8", "length = 8\nshuffle = { block = 4, window = 0 }", "bad-value"),
        ("length = 8", "length = 8\nshuffle = { block = 4, window = 16777217 }", "bad-value"),
        ("length = 8", "length = 8\nshuffle = { block = 4, windw = 2 }", "unknown-key"),
        ("length = 8", "length = 8\nshuffle = { block = 4.0, window = 2 }", "bad-type"),
        ("length = 8", "length = 8\nshuffle = { block = 4, window = 2, era = 8 }", "conflict"),
        ("length = 8", "length = 8\nshuffle = { window = 2, era = 8 }", "conflict"),
        ("length = 8", "length = 8\nshuffle = { era = 0 }", "bad-value"),
        ("length = 8", "length = 8\nshuffle = { era = 281474976710657 }", "bad-value"),
        ("length = 8", 'length = 8\noverlong = "cut"', "conflict"),
        ("length = 8", 'length = 8\npack = "concat"\noverlong = "error"', "conflict"),
        ("length = 8", 'length = 8\npack = "fit"\noverlong = "trim"', "bad-value"),
        ("length = 8", "length = 8\npad = { input_ids = 8 }", "conflict"),
        ("length = 8", 'length = 8\npack = "fit"\npad = { input_ids = 8 }', "conflict"),
        ("length = 8", 'length = 8\npack = "none"\npad = { input_ids = 9 }', "conflict"),
        ("length = 8", 'length = 8\npack = "none"\npad = { labels = 9 }', "conflict"),
        ("length = 8", 'length = 8\npack = "none"\npad = {}', "bad-value"),
        ("length = 8", 'length = 8\npack = "none"\npad = 8', "bad-type"),
        ("length = 8", 'length = 8\npack = "none"\npad = { input_ids = 0 }', "bad-value"),
        ("length = 8", 'length = 8\npack = "none"\npad = { input_ids = true }', "bad-type"),
        ("length = 8", 'length = 8\npack = "none"\npad = { audio = 8 }', "missing-column"),
        ("length = 8", 'length = 8\npack = "none"\ncolumns = ["audio"]\npad = { input_ids = 8 }', "missing-column"),
        ("length = 8", 'length = 8\npack = "none"\ncolumns = ["audio"]\nmask = "document"', "conflict"),
        ("length = 8", 'length = 8\npack = "none"\ncolumns = ["audio"]\noverlong = "cut"', "conflict"),
        ("length = 8", 'length = 8\npack = "none"\ncolumns = ["labels"]', "conflict"),
        ("length = 8", "length = 0\npack = 'none'\npad = { input_ids = 9 }", "bad-value"),
        ("length = 8", 'length = 8\ncolumns = ["@key"]', "bad-name"),
        ("length = 8", 'length = 8\ncolumns = ["segment_ids"]', "bad-name"),
        ("length = 8", 'length = 8\ncolumns = ["a b"]', "bad-name"),
        ("length = 8", 'length = 8\ncolumns = ["a", "a"]', "conflict"),
    ],
)
def test_one_mistake_one_diagnostic(tmp_path: Path, old: str, new: str, kind: str) -> None:
    assert old in SMALL
    assert kinds(tmp_path, SMALL.replace(old, new)) == [kind]


RIGHT = [
    ("weights = { web = 1 }", "stages = [{ from = 0, weights = { web = 1 } }]"),
    ("weights = { web = 1 }", "stages = [{ from = 0, weights = { web = 1 } }, { from = 5, weights = { web = 2 } }]"),
    (
        "weights = { web = 1 }",
        "stages = [{ from = 0, weights = { web = 1 } }, { from = 5, weights = { late = 2 } }]\nmax_epochs.late = 0.5\n"
        "until = 'first'\n[source.late]\nfiles = 'b'",
    ),
    *[
        (
            "weights = { web = 1 }",
            f"weights = {{ web = 1 }}\nby = 'tokens'\nuntil = {until}\nmax_epochs = {{ web = 1.5 }}",
        )
        for until in ("'first'", "'all'", "{ epochs = 9 }")
    ],
    *[
        ("length = 8", f"length = 8\n{more}")
        for more in (
            "pack = 'fit'",
            "pack = 'fit'\noverlong = 'drop'",
            "pack = 'fit'\noverlong = 'cut'",
            "pack = 'fit'\noverlong = 'error'\nmask = 'prefix'",
            "pack = 'none'\noverlong = 'drop'\nmask = 'prefix'",
            "shuffle = { block = 1, window = 16777216 }",
            "shuffle = { era = 281474976710656 }",
            "pack = 'none'\npad = { input_ids = 8, labels = 8 }",
            "pack = 'none'\ncolumns = ['audio']\npad = { audio = 1 }",
            "columns = ['more', 'labels']",
        )
    ],
    *[
        ('files = "a.jsonl"', f'files = "a"\nsplit = {{ {split} }}')
        for split in (
            "train = 1",
            "train = 10, valid = 1152921504606846976",
            "train = 1.0, valid = 9",
            "train = 0.5, valid = 9, x = 0.5",
        )
    ],
]


@pytest.mark.parametrize(("old", "new"), RIGHT)
def test_right(tmp_path: Path, old: str, new: str) -> None:
    assert old in SMALL
    load(tmp_path, SMALL.replace(old, new))


def test_eras(tmp_path: Path) -> None:
    recipe = load(tmp_path, SMALL.replace("length = 8", "length = 8\nshuffle = { era = 1_000 }"))
    assert recipe.examples.shuffle == EraShuffle(era=1000)


def test_a_typo_in_a_cap_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, SMALL.replace("weights = { web = 1 }", "weights = { web = 1 }\nmax_epochs = { wbe = 2 }"))
    (only,) = caught.value.diagnostics
    assert only.hint == "did you mean 'web'?"
    assert only.where is not None
    assert (only.where.line, only.where.column) == (8, 16)


def test_whole_tables_missing(tmp_path: Path) -> None:
    assert kinds(tmp_path, "dsbuild = 1\nname = 'x'\n") == ["missing-key"] * 3
    assert kinds(tmp_path, "") == ["missing-key"] * 5


def test_null_and_surrogates_in_json(tmp_path: Path) -> None:
    tree = tomli.loads(SMALL)
    for value in (None, "\ud800", {"x": None}, {"\ud800": 1}):
        tree["source"]["web"]["handlers"] = [{"use": "keep", "where": value}]
        assert len(kinds(tmp_path, json.dumps(tree), "r.json")) == 1
    tree = tomli.loads(SMALL) | {"description": None}
    assert kinds(tmp_path, json.dumps(tree), "r.json") == ["bad-type"]
    tree = tomli.loads(SMALL) | {"\ud800": 1}
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, json.dumps(tree), "r.json")
    caught.value.render().encode("utf-8")


def test_mistakes_are_sorted_and_bounded(tmp_path: Path) -> None:
    text = SMALL + "".join(f"k{n} = 1\n" for n in range(1000))
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, text)
    found = caught.value.diagnostics
    assert len(found) == MOST + 1
    lines = [d.where.line for d in found if d.where is not None and d.where.line is not None]
    assert lines == sorted(lines)


def test_a_hostile_recipe_ends_soon(tmp_path: Path) -> None:
    many = "".join(f"[source.s{n}]\nfrom = ['s{n + 1}', 'f{n}']\n[source.f{n}]\nfiles='a'\n" for n in range(5000))
    text = SMALL.replace("[source.web]", many + "[source.s5000]\nfiles = 'a'\n[source.web]")
    weights = ", ".join(f"s{n} = 1" for n in range(5000))
    text = text.replace(
        "weights = { web = 1 }", f"weights = {{ {weights} }}\n[mixture.valid]\nweights = {{ {weights} }}"
    )
    assert set(kinds(tmp_path, text)) == {"leak"}


def test_a_recipe_of_many_stages_ends_soon(tmp_path: Path) -> None:
    sources = "".join(f"[source.s{n}]\nfiles = 'f{n}'\n" for n in range(2000))
    stages = "".join(f"{{ from = {n}, weights = {{ s{n} = {n + 1} }} }}," for n in range(2000))
    more = "".join(f"[mixture.m{n}]\nweights = {{ web = 1 }}\n" for n in range(2000))
    text = SMALL.replace("weights = { web = 1 }", f"stages = [{stages}]\n{more}").replace(
        "[source.web]", sources + "[source.web]"
    )
    assert set(kinds(tmp_path, text)) == {"leak"}
