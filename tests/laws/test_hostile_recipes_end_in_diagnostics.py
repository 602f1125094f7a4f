"""Law: whatever stands in a recipe or a lock, reading it gives a value or diagnostics that can be printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dsbuild.digest import Digest
from dsbuild.errors import DsbuildError
from dsbuild.graph import instantiate
from dsbuild.recipe import Lock, LockedFile, LockedSource, LockedTokenizer, load_recipe, mixture, read_lock, tree

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "tests" / "golden" / "diagnostics" / "everything.toml").read_bytes()
STREAM = (ROOT / "tests" / "golden" / "diagnostics" / "stream.toml").read_bytes()
SHAPES = (ROOT / "tests" / "golden" / "diagnostics" / "static-shapes.toml").read_bytes()
GOOD = (ROOT / "recipes" / "tiny.toml").read_bytes()
LOCK = (
    '{"dsbuild":"lock","version":1}\n'
    f'{{"kind":"file","source":"w","name":"é","pattern":"*","id":"b3:{"0" * 64}","size":1}}\n'
    '{"kind":"source","name":"w","patterns":["*"]}\n'
).encode()
TOKENS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"=",
    b"\n",
    b'"',
    b"'",
    b'"""',
    b".",
    b",",
    b"#",
    b"\\",
    b"\0",
    b"\xff",
    b"[[",
    b"1e9",
    b"nan",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text(max_size=3), t, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: Any, data: bytes) -> bytes:
    """``data`` with a few runs replaced, dropped or doubled."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 12))
        middle = draw(st.sampled_from([b"", *TOKENS]) | st.binary(max_size=4) | st.just(data[at:end] * 2))
        data = data[:at] + middle + data[end:]
    return data


def read(load: Callable[[Path], object], path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        load(path)
    except DsbuildError as error:
        assert error.exit_code != 70
        error.render().encode("utf-8")
        json.dumps([d.as_json() for d in error.diagnostics])


def law(
    strategy: st.SearchStrategy[bytes],
    load: Callable[[Path], object],
    path: Path,
    examples: int = 400,
    phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink),
) -> None:
    @settings(max_examples=examples, deadline=None, database=None, report_multiple_bugs=False, phases=phases)
    @given(strategy)
    def check(data: bytes) -> None:
        read(load, path, data)

    check()


def test_damaged_recipes(tmp_path: Path) -> None:
    law(damaged(RECIPE) | damaged(GOOD), load_recipe, tmp_path / "r.toml")


def test_damaged_recipes_of_the_stream(tmp_path: Path) -> None:
    law(damaged(STREAM) | damaged(SHAPES), load_recipe, tmp_path / "r.toml")


def test_damaged_locks(tmp_path: Path) -> None:
    law(damaged(LOCK), read_lock, tmp_path / "r.lock")


TABLES = ["", "source", "source.web", "source.web.handlers", "source.web.split", "mixture", "mixture.train"]
TABLES += ["mixture.train.stages", "mixture.train.weights", "mixture.train.max_epochs"]
TABLES += ["examples", "examples.shuffle", "examples.pad", "examples.columns"]
LISTS = ("handlers", "stages", "columns")
KEYS = ["dsbuild", "name", "now", "seed", "tokenizer", "files", "from", "split", "order", "read", "until", "weights"]
KEYS += ["handlers", "use", "requires", "reads", "length", "shuffle", "columns", "pack", "by", "web", "train", "file"]
KEYS += ["stages", "max_epochs", "mask", "overlong", "pad", "block", "window", "era", "input_ids", "labels", "valid"]
CHOICES = [
    "fit",
    "none",
    "concat",
    "prefix",
    "drop",
    "tokens",
    0,
    1,
    8,
    -1,
    True,
    None,
    "",
    [],
    {},
    {"web": 1},
    {"era": 2},
]
CHOICES += [[{"from": 0, "weights": {"web": 1}}], ["audio"], ["input_ids"], {"audio": 1}, 1 << 70, 0.5, 1e300]
CHOICES += [{"web": 1, "code": 1e-30}]


@pytest.mark.parametrize("key", TABLES)
def test_any_value_in_any_table(tmp_path: Path, key: str) -> None:
    """Values of any type, and values that are right elsewhere, under the keys that a recipe has."""

    def wrapped(values: dict[str, Any]) -> bytes:
        whole: Any = values
        for part in reversed(key.split(".") if key else []):
            whole = {part: [whole] if part in LISTS else whole}
        return json.dumps(whole).encode()

    strategy = st.dictionaries(st.sampled_from(KEYS), JSON | st.sampled_from(CHOICES), max_size=8).map(wrapped)
    law(strategy, load_recipe, tmp_path / "r.json", 60)


def instance(path: Path) -> object:
    """The graph of the recipe at ``path``, under a lock made for it."""
    recipe = load_recipe(path)
    none = Digest(bytes(32))
    tokenizer = LockedTokenizer(name="bytes", id="builtin:bytes@1", fingerprint=none, size=259, tokens={})
    entries: list[LockedSource | LockedFile | LockedTokenizer] = [tokenizer]
    for source in recipe.sources.values():
        entries.append(LockedSource(name=source.name, patterns=source.files))
        entries += [LockedFile(source=source.name, name=n, pattern=n, id=none, size=1) for n in source.files]
    return instantiate(recipe, Lock.of(entries))


WHOLE: dict[str, Any] = {
    "dsbuild": 1,
    "name": "x",
    "tokenizer": {"file": "bytes"},
    "source": {
        "web": {"files": "a.jsonl", "handlers": [{"use": "tokenize"}], "split": {"train": 1, "valid": 0.5}},
        "code": {"files": "b.jsonl", "handlers": [{"use": "tokenize"}]},
    },
    "mixture": {"train": {"weights": {"web": 1, "code": 2}}},
    "examples": {"length": 8},
}
STAGES = [{"from": 0, "weights": {"web": 1}}, {"from": 5, "weights": {"code": 1, "web": 3}}]
MIXTURES = [
    {"stages": STAGES, "weights": None},
    {"by": "tokens", "max_epochs": {"code": 0.5}},
    {"until": {"epochs": 2.5}},
]
EXAMPLES = [
    {"pack": "fit", "overlong": "drop"},
    {"pack": "none", "columns": ["audio", "input_ids"], "pad": {"audio": 9}},
    {"shuffle": {"block": 9, "window": 2}},
    {"shuffle": {"era": 9}},
]


@st.composite
def whole_recipes(draw: Any) -> bytes:
    """Recipes that are right but for a few values, so that what follows from right ones is seen too."""
    found = json.loads(json.dumps(WHOLE))
    mixed, examples = found["mixture"]["train"], found["examples"]
    for table, forms in ((mixed, MIXTURES), (examples, EXAMPLES)):
        for form in draw(st.lists(st.sampled_from(forms), max_size=2)):
            table |= form
    if mixed["weights"] is None:
        del mixed["weights"]
    for key, value in draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(CHOICES), max_size=4)).items():
        for table in (found["source"]["web"], mixed, examples):
            if key in table:
                table[key] = value
    return json.dumps(found).encode()


def weighed() -> st.SearchStrategy[bytes]:
    """The right recipe with any weights."""
    mixtures = st.sampled_from(CHOICES).map(lambda weights: {"train": {"weights": weights}})
    return mixtures.map(lambda mixture: json.dumps(WHOLE | {"mixture": mixture}).encode())


def test_whole_recipes(tmp_path: Path) -> None:
    seen = set()

    def load(path: Path) -> None:
        instance(path)
        seen.add(path.read_bytes())

    law(whole_recipes() | weighed(), load, tmp_path / "r.json", 300)
    assert len(seen) >= 20


def test_mutant_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that leaves weights to whoever counts with them must not survive."""
    monkeypatch.setattr(mixture, "_check_exact", lambda table, ratios: None)
    with pytest.raises(ValueError, match="rounder ratios"):
        law(weighed(), instance, tmp_path / "r.json", 1000, (Phase.generate,))


def test_mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that trusts the encoding must not survive."""
    monkeypatch.setattr(tree, "_decode", lambda data, path: data.decode())
    with pytest.raises(UnicodeDecodeError):
        law(damaged(GOOD), load_recipe, tmp_path / "r.toml", 2000, (Phase.generate,))
