"""The local executor: each task once, errors with their class; a lost worker is retried, then an error, no hang."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dsbuild.build import InlineExecutor, LocalExecutor
from dsbuild.build.executors.local import worker_environment
from dsbuild.errors import BuildError, DsbuildError, RecipeError
from dsbuild.testing.executors import Dies, Double, Fails, check_executor


@pytest.mark.parametrize("executor", [InlineExecutor(), LocalExecutor(jobs=1), LocalExecutor(jobs=3)])
def test_suite(executor: Any) -> None:
    check_executor(executor)


def test_order_does_not_matter_and_all_come() -> None:
    done = list(LocalExecutor(jobs=2).run(range(50), Double()))
    assert sorted(d.value for d in done) == [2 * n for n in range(50)]


def test_an_error_keeps_its_class() -> None:
    (done,) = LocalExecutor(jobs=1).run([1], Fails())
    assert isinstance(done.error, RecipeError)
    assert done.error.kind == "bad-value"


def test_a_worker_that_always_dies_is_an_error(tmp_path: Path) -> None:
    done = list(LocalExecutor(jobs=2, tries=2).run([1, 2, 3], Dies(str(tmp_path), always=True)))
    assert len(done) == 3
    assert all(isinstance(d.error, BuildError) and d.error.kind == "worker-lost" for d in done)


def test_a_worker_that_dies_once_is_replaced(tmp_path: Path) -> None:
    done = list(LocalExecutor(jobs=1).run([1, 2, 3], Dies(str(tmp_path))))
    assert sorted(d.value for d in done) == [1, 2, 3]


def test_closing_stops_the_workers() -> None:
    import psutil

    before = {p.pid for p in psutil.Process().children()}
    results = LocalExecutor(jobs=2).run(range(1000), Double())
    next(results)
    results.close()  # type: ignore[attr-defined]
    time.sleep(0.1)
    assert {p.pid for p in psutil.Process().children()} <= before


def test_the_environment_is_built() -> None:
    found = worker_environment({"PATH": "/bin", "http_proxy": "x", "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})
    assert found["PYTHONHASHSEED"] == "0"
    assert found["TZ"] == "UTC"
    assert "http_proxy" not in found


def test_errors_that_are_no_dsbuild_error_are_told() -> None:
    (done,) = LocalExecutor(jobs=1).run(["x"], Fails(plain=True))
    assert type(done.error) is DsbuildError
    assert "ZeroDivisionError" in str(done.error)
