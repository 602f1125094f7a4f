"""Diagnostics in full: ``tests/golden/diagnostics/CASE.toml`` gives ``CASE.txt``. DSBUILD_UPDATE_GOLDEN=1 rewrites."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsbuild.errors import DsbuildError
from dsbuild.recipe import load_recipe

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "diagnostics"
CASES = sorted(p.name for p in GOLDEN.iterdir() if p.suffix in (".toml", ".json"))


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    with pytest.raises(DsbuildError) as caught:
        load_recipe(Path(case))
    told = caught.value.render() + "\n"
    expected = GOLDEN / f"{Path(case).stem}.txt"
    if os.environ.get("DSBUILD_UPDATE_GOLDEN") == "1":
        expected.write_text(told, "utf-8")
    assert told == expected.read_text("utf-8")


def test_there_are_cases() -> None:
    assert len(CASES) >= 10
