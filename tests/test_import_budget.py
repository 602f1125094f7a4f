"""What importing dsbuild and starting the command line may load."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"torch", "jax", "ray", "zarr", "pyarrow", "tokenizers", "numcodecs", "rich"}


def loaded(code: str) -> set[str]:
    printed = subprocess.run(
        [sys.executable, "-c", code + "\nimport sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {line.split(".")[0] for line in printed.splitlines()}


def test_import_is_light() -> None:
    assert not loaded("import dsbuild") & (HEAVY | {"numpy", "click"})


def test_command_line_start_is_light() -> None:
    code = "import dsbuild.cli\nfrom click.testing import CliRunner\n"
    code += "CliRunner().invoke(dsbuild.cli.commands, ['--help'])"
    assert not loaded(code) & (HEAVY | {"numpy", "blake3"})


def test_opening_a_dataset_needs_no_framework() -> None:
    assert not loaded("from dsbuild import open_dataset") & HEAVY


def test_negative_control() -> None:
    assert "zarr" in loaded("import zarr")
