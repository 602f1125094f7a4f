"""Stores: the one that a command line means."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dsbuild.errors import NotFoundError, StorageError
from dsbuild.store import Store, find_store


def open_store(directory: Path | None, store: str | None, *, create: bool = False, readonly: bool = False) -> Store:
    """``--store``, else ``DSBUILD_STORE``, else the nearest ``store/`` above ``directory``, else the user's own."""
    root = find_store(directory, store, dict(os.environ))
    if create:
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"{root}: {error.strerror or error}", kind="io-error", hint="give another place with --store"
            ) from None
    return Store.open(root, create=create, readonly=readonly)


@contextlib.contextmanager
def store_to_plan_in(directory: Path | None, store: str | None) -> Iterator[Store]:
    """The store for a command that only plans: where there is none yet, an empty one for as long as it takes."""
    try:
        yield open_store(directory, store, readonly=True)
    except NotFoundError as error:
        if error.kind != "not-found":
            raise
        with tempfile.TemporaryDirectory() as name:
            yield Store.open(Path(name) / "store", create=True)


def known_store(directory: Path | None, store: str | None) -> Store | None:
    """The store if there is one: for commands that need it only for nodes of other recipes and as a stat cache."""
    try:
        return open_store(directory, store)
    except NotFoundError:
        if store is not None:
            raise
        return None
