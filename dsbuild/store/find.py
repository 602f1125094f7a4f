"""Find: which store is meant when a command does not say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MARK = "# dsbuild store"
"""First line of the .gitignore of a directory that a checkout keeps for its store."""


def find_store(recipe_directory: Path | None, explicit: str | None, environ: Mapping[str, str]) -> Path:
    """The root of the store in use, which need not exist.

    ``explicit`` (``--store``), else ``DSBUILD_STORE``, else the nearest ``store/`` with a ``format`` file (or the mark
    of a place kept for one) in ``recipe_directory`` or above, else ``dsbuild/store`` in the user's data directory.
    """
    named = explicit or environ.get("DSBUILD_STORE")
    if named:
        return Path(named).expanduser()
    if recipe_directory is not None:
        here = recipe_directory.absolute()
        for directory in (here, *here.parents):
            if (directory / "store" / "format").is_file() or _is_meant(directory / "store"):
                return directory / "store"
    data = environ.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):  # the XDG specification: relative paths are to be ignored
        home = environ.get("HOME")
        data = str((Path(home) if home else Path.home()) / ".local" / "share")
    return Path(data) / "dsbuild" / "store"


def _is_meant(directory: Path) -> bool:
    """Whether a checkout keeps ``directory`` for its store: its .gitignore says so, though nothing is built yet."""
    try:
        with (directory / ".gitignore").open(encoding="utf-8") as file:
            return file.readline().strip() == MARK
    except (OSError, UnicodeDecodeError):
        return False
