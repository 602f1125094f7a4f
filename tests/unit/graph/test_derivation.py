"""Derivations: read from untrusted bytes, walked with inputs before users."""

from __future__ import annotations

from typing import Any

import pytest

from dsbuild import canon
from dsbuild.graph import Derivation, parse
from dsbuild.graph import derivation as module
from dsbuild.graph.derivation import KINDS

GOOD = {"dsbuild": 1, "kind": "pack", "builder": "fit@1", "arguments": {"length": 8}, "inputs": ["ab" * 32]}


def test_good() -> None:
    found = parse(canon.encode(GOOD))
    assert (found.kind, found.name, found.version, found.arguments) == ("pack", "fit", 1, {"length": 8})
    assert [d.hex for d in found.references()] == ["ab" * 32]
    assert found.canonical == canon.encode(GOOD)


@pytest.mark.parametrize(
    "changes",
    [
        {"dsbuild": 2},
        {"kind": "packed"},
        {"builder": "fit"},
        {"builder": "fit@"},
        {"builder": "fit@-1"},
        {"builder": 7},
        {"arguments": []},
        {"inputs": "ab"},
        {"inputs": [7]},
        {"inputs": ["ab"]},
        {"inputs": {"train": "x"}},
        {"more": 1},
    ],
)
def test_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        parse(canon.encode(GOOD | changes))


def test_every_kind_is_in_the_table() -> None:
    assert module.__doc__ is not None
    assert all(f"\n{kind:<13}  " in module.__doc__ for kind in KINDS)


def test_a_graph_walks_through_every_kind(made: Any) -> None:
    changes = {
        "examples.pack": "fit",
        "source.a.split": {"train": 0.5, "valid": 5},
        "source.a.order": {"interleave": 2},
        "source.d.from": ["b", "c"],
        "mixture.train.weights": {"a": 1, "d": 2},
    }
    graph = made(changes).graph
    seen: set[str] = set()
    for digest in graph.closure(graph.output):
        derivation: Derivation = graph.derivations[digest]
        assert all(reference.hex in seen for reference in derivation.references())
        seen.add(digest.hex)
    assert {d.kind for d in graph.derivations.values()} == set(KINDS)


def test_a_long_chain_of_sources(made: Any, parts: Any) -> None:
    """Deeper than Python recurses."""
    changes: dict[str, Any] = {f"source.s{n}.from": f"s{n + 1}" for n in range(2000)}
    changes |= {"source.s2000": {"files": "a.txt", "handlers": [{"use": "tokenize"}]}}
    changes |= {"mixture.train.weights": {"s0": 1}}
    (records,) = parts(made(changes))["records"]
    assert records.digest == parts(made({"mixture.train.weights": {"a": 1}}))["records"][0].digest
