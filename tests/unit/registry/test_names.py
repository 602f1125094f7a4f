"""Names: built in, installed, unknown, broken."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dsbuild import registry
from dsbuild.errors import MachineError
from dsbuild.interfaces import Reader
from dsbuild.registry import names


@pytest.mark.parametrize("name", sorted(names.HANDLERS))
def test_handlers_are_what_the_table_says(name: str) -> None:
    found = registry.handler(name)
    assert found.name == name and found.version >= 1
    assert all(hasattr(found, attribute) for attribute in ("resolve", "effect", "apply"))


@pytest.mark.parametrize("name", ["csv", "jsonl", "text", "parquet", "arrow"])
def test_readers_are_what_the_table_says(name: str) -> None:
    if name in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    found = registry.reader(name)
    assert isinstance(found, Reader) and found.name == name
    mine = {suffix for suffix, reader in names.SUFFIXES.items() if reader == name}
    assert mine == {s for s in found.suffixes if not s.endswith(names.COMPRESSED)}


@pytest.mark.parametrize(
    ("filename", "format"),
    [
        ("a.jsonl", "jsonl"),
        ("lake/web/*.jsonl.zst", "jsonl"),
        ("A.NDJSON.GZ", "jsonl"),
        ("v1.2/x.txt", "text"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "csv"),
        ("a.parquet", "parquet"),
        ("**/*.arrow", "arrow"),
    ],
)
def test_suffixes(filename: str, format: str) -> None:
    assert names.format_of(filename) == format


def test_a_format_wins_over_the_suffix() -> None:
    assert registry.reader_for("a.dat", "text").name == "text"
    assert registry.reader_for("a.jsonl", "text").name == "text"


@pytest.mark.parametrize("filename", ["a.dat", "a", "a.gz", "a.json.zst"])
def test_unknown_suffixes(filename: str) -> None:
    with pytest.raises(registry.UnknownPlugin) as caught:
        registry.reader_for(filename)
    assert "format = one of arrow, csv, jsonl, parquet, text" in str(caught.value.hint)


def test_unknown_names() -> None:
    with pytest.raises(registry.UnknownPlugin, match="'tokenise': no such handler") as caught:
        registry.handler("tokenise")
    assert (caught.value.hint, caught.value.suggestions) == ("did you mean 'tokenize'?", ("tokenize",))
    with pytest.raises(registry.UnknownPlugin) as caught:
        registry.reader("xyz")
    assert caught.value.hint == "there are arrow, csv, jsonl, parquet, text"
    assert "python" not in registry.handler_names() and "tokenize" in registry.handler_names()


PLUGIN = """
class Good:
    name, version, arguments, suffixes = "good", 3, (), (".good",)
    def resolve(arguments, facts): ...
    def effect(self): ...
    def apply(self, records): ...
    def split(self): ...
    def read(self): ...
class Other(Good):
    name = "something-else"
class Bare: ...
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dsbuild_test_plugin.py").write_text(PLUGIN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["Good", "Other", "Bare", "Gone"]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **which: entries(which["group"], lines))


def entries(group: str, classes: list[str]) -> list[Any]:
    made = [importlib.metadata.EntryPoint(c.lower(), f"dsbuild_test_plugin:{c}", group) for c in classes]
    return [*made, importlib.metadata.EntryPoint("keep", "dsbuild_test_plugin:Good", group)]


@pytest.mark.usefixtures("plugin")
def test_installed_plugins() -> None:
    assert registry.handler("good").version == 3
    assert registry.reader("good").name == "good"
    assert "good" in registry.handler_names()
    assert registry.handler("keep").__module__ == "dsbuild.handlers.keep", "a built-in name can't be taken"
    for name, said in (
        ("other", "calls itself 'something-else'"),
        ("bare", "has no 'name'"),
        ("gone", "does not load"),
    ):
        with pytest.raises(MachineError, match=said):
            registry.handler(name)


@pytest.mark.usefixtures("plugin")
def test_installed_readers_serve_suffixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **which: entries(which["group"], ["Good"])[:1])
    assert registry.reader_for("x.good.zst").name == "good"


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from dsbuild import registry; registry.handler_names(); registry.names.format_of('a.parquet')\n"
    )
    script += "heavy = ('pyarrow', 'tokenizers', 'zarr', 'dsbuild.readers', 'dsbuild.handlers')\n"
    script += "print([m for m in heavy if m in sys.modules])"
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[]"


def test_tokenizers_are_reached_by_name(tmp_path: Path) -> None:
    assert registry.load_tokenizer("bytes", tmp_path).size == 259
    assert registry.probe_tokenizer("bytes", tmp_path, ["<eos>"]).tokens == {"<eos>": 256}
