"""Stores: the one that a command line means."""

from __future__ import annotations

import os
from pathlib import Path

from dsbuild.store import Store, find_store


def open_store(directory: Path | None, store: str | None, *, create: bool = False, readonly: bool = False) -> Store:
    """``--store``, else ``DSBUILD_STORE``, else the nearest ``store/`` above ``directory``, else the user's own."""
    return Store.open(find_store(directory, store, dict(os.environ)), create=create, readonly=readonly)
