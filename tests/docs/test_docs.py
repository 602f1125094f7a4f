"""Docs are executed: the tutorial and how-tos from top to bottom, the README's recipe, and the pages that the code generates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "tutorial.md",
    "how-to/pin-a-hash.md",
    "how-to/resume-elsewhere.md",
    "how-to/change-the-mixture.md",
    "how-to/batch-provenance.md",
)
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)


@pytest.fixture
def bin_directory(tmp_path: Path) -> Path:
    """A directory with ``dsbuild`` as this Python runs it."""
    directory = tmp_path / "bin"
    directory.mkdir()
    script = directory / "dsbuild"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m dsbuild "$@"\n')
    script.chmod(0o755)
    return directory


@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs(page: str, tmp_path: Path, bin_directory: Path) -> None:
    """The blocks of a page, in order, in an empty directory; Python blocks of a page share their names."""
    work = tmp_path / "work"
    work.mkdir()
    environment = os.environ | {"PATH": f"{bin_directory}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    environment.pop("DSBUILD_STORE", None)
    blocks = [b for b in BLOCK.findall((ROOT / "docs" / page).read_text("utf-8")) if b[0] in ("sh", "python")]
    assert len(blocks) >= 2
    said = ""
    for language, marks, code in blocks:
        if language == "python":
            said += code
        command = ["bash", "-e", "-c", code] if language == "sh" else [sys.executable, "-P", "-c", said]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        expected = int(found[1]) if (found := re.search(r"exit=(\d+)", marks)) else 0
        assert done.returncode == expected, f"{code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_readme_recipe_parses(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") <= 120
    (recipe,) = [code for language, _, code in BLOCK.findall(text) if language == "toml"]
    path = tmp_path / "web.toml"
    path.write_text(recipe)
    from dsbuild.recipe import load_recipe

    assert load_recipe(path).name == "web-v1"


def test_readme_has_two_setup_commands() -> None:
    blocks = re.findall(r"```sh setup\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert [b.strip().count("\n") for b in blocks] == [0, 0]


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_and_kind_is_documented() -> None:
    from dsbuild.cli import COMMANDS
    from dsbuild.errors import KINDS

    cli, errors = ((ROOT / "docs" / "reference" / n).read_text("utf-8") for n in ("cli.md", "errors.md"))
    assert all(f"## dsbuild {name}\n" in cli for name in COMMANDS)
    assert all(f"`{kind}`" in errors for kind in KINDS)
