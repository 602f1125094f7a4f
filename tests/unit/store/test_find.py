"""Which store is meant."""

from __future__ import annotations

from pathlib import Path

from dsbuild.store import Store, find_store


def test_order(tmp_path: Path) -> None:
    recipes = tmp_path / "work" / "recipes"
    recipes.mkdir(parents=True)
    env = {"DSBUILD_STORE": str(tmp_path / "env"), "HOME": str(tmp_path)}
    assert find_store(recipes, "given", env) == Path("given")
    assert find_store(recipes, None, env) == tmp_path / "env"
    del env["DSBUILD_STORE"]
    data = tmp_path / ".local" / "share" / "dsbuild" / "store"
    assert find_store(recipes, None, env) == data
    (tmp_path / "work" / "store").mkdir()
    assert find_store(recipes, None, env) == data
    Store.open(tmp_path / "work" / "store", create=True)
    assert find_store(recipes, None, env) == tmp_path / "work" / "store"
    assert find_store(None, None, env) == data


def test_data_directory(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": "/data", "HOME": "/home/x"}
    assert find_store(None, None, env) == Path("/data/dsbuild/store")
    env["XDG_DATA_HOME"] = "relative"
    assert find_store(None, None, env) == Path("/home/x/.local/share/dsbuild/store")
