"""Fixtures: the test data, and a project (a recipe with its files and store) that tests build and change."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dsbuild.build import BuildReport, InlineExecutor, LocalExecutor, Session, build, contents_of, failure, prepare
from dsbuild.cli.outputs import finish
from dsbuild.load import Dataset, open_dataset
from dsbuild.store import Store


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The directory of real inputs; tests that need it are skipped without it."""
    value = os.environ.get("DSBUILD_TEST_DATA")
    if not value:
        pytest.skip("DSBUILD_TEST_DATA is not set")
    return Path(value)


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests never see the caller's store or data directory."""
    monkeypatch.delenv("DSBUILD_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data-home"))


@dataclass(frozen=True)
class Project:
    """A directory with ``recipe.toml``, its files, and a store."""

    root: Path

    @property
    def recipe(self) -> Path:
        return self.root / "recipe.toml"

    @property
    def store(self) -> Store:
        return Store.open(self.root / "store", create=True)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def jsonl(self, name: str, rows: Iterable[Any]) -> Path:
        return self.write(name, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))

    def prepare(self, **options: Any) -> Session:
        return prepare(self.recipe, store=self.store, **options)

    def report(self, *, jobs: int = 0, fail_fast: bool = False, **options: Any) -> BuildReport:
        """Build and return the report, errors included. ``jobs`` 0 = in this process."""
        store = self.store
        session = prepare(self.recipe, store=store, **options)
        executor = LocalExecutor(jobs=jobs) if jobs else InlineExecutor()
        graph, work = session.instance.graph, session.work(store)
        report = build(graph, store, session.files, executor, work, fail_fast=fail_fast, root=session.recipe.name)
        if failure(report) is None:
            finish(session, store, report)
        return report

    def build(self, **options: Any) -> BuildReport:
        """Build; raises what failed."""
        report = self.report(**options)
        error = failure(report)
        if error is not None:
            raise error
        return report

    def open(self, split: str = "train") -> Dataset:
        return open_dataset(self.recipe, split=split, store=self.root / "store")

    def contents(self) -> dict[str, list[str]]:
        """Content digests of every built node, by derivation."""
        store, found = self.store, {}
        for digest in self.prepare().instance.graph.derivations:
            manifest = store.manifest(digest)
            if manifest is not None:
                found[digest.hex] = [c.hex for c in contents_of(manifest)]
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    return lambda: Project(tmp_path_factory.mktemp("project"))
