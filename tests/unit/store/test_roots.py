"""Roots and their generations."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError, NotFoundError, RecipeError
from dsbuild.store import Store


def put(store: Store, data: bytes) -> Digest:
    digest = of_bytes(Domain.DERIVATION, data)
    store.put_derivation(digest, data)
    return digest


def listed(store: Store) -> list[tuple[str, int, Digest, bool]]:
    return [(r.name, r.generation, r.digest, r.current) for r in store.roots.list()]


def test_generations(store: Store) -> None:
    a, b = put(store, b"{}"), put(store, b"[]")
    assert store.roots.list() == ()
    assert [store.roots.add("tiny", d) for d in (a, a, b, b, a)] == [1, 1, 2, 2, 3]
    store.roots.add("other", b)
    assert listed(store) == [
        ("other", 1, b, True),
        ("tiny", 1, a, False),
        ("tiny", 2, b, False),
        ("tiny", 3, a, True),
    ]
    store.roots.remove("other")
    assert {r.name for r in store.roots.list()} == {"tiny"}
    with pytest.raises(NotFoundError):
        store.roots.remove("other")


def test_rollback(store: Store) -> None:
    a, b = put(store, b"{}"), put(store, b"[]")
    store.roots.add("tiny", a)
    store.roots.add("tiny", b)
    assert store.roots.rollback("tiny") == 1
    assert listed(store) == [("tiny", 1, a, True), ("tiny", 2, b, False)]
    with pytest.raises(NotFoundError, match="first generation"):
        store.roots.rollback("tiny")
    assert store.roots.add("tiny", a) == 1
    assert store.roots.add("tiny", b) == 2
    assert listed(store) == [("tiny", 1, a, False), ("tiny", 2, b, True)]
    with pytest.raises(NotFoundError, match="not in the store"):
        store.roots.rollback("absent")


def test_a_root_needs_its_derivation(store: Store) -> None:
    with pytest.raises(NotFoundError, match="can't be a root"):
        store.roots.add("tiny", Digest(bytes(32)))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "a b", "x" * 129, "\n"])
def test_names(store: Store, name: str) -> None:
    with pytest.raises(RecipeError, match="can't be a name"):
        store.roots.add(name, put(store, b"{}"))


def test_damage(store: Store) -> None:
    a, b = put(store, b"{}"), put(store, b"[]")
    store.roots.add("tiny", a)
    store.roots.add("tiny", b)
    directory = Path(store.layout.generations("tiny"))
    (directory / "1").rename(directory / "2")
    with pytest.raises(CorruptError, match="is generation 1 of"):
        store.roots.list()
    (directory / "2").unlink()
    (directory / "3").write_bytes(b"junk")
    with pytest.raises(CorruptError):
        store.roots.list()
    (directory / "3").unlink()
    (directory / "x").touch()
    with pytest.raises(CorruptError, match="not a generation"):
        store.roots.list()
