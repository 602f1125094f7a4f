"""Names: what the recipe and its lock call the sources and files of a hash."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from dsbuild.digest import Digest
from dsbuild.errors import DsbuildError
from dsbuild.graph import Graph
from dsbuild.recipe import Lock, LockedFile, write_atomically
from dsbuild.store.names import Names, names_path, read_names, render_names

if TYPE_CHECKING:
    from dsbuild.store import Store


def names_of(graph: Graph, lock: Lock) -> Names:
    """The names of the views of ``graph``'s mixtures, and of the files of its ``source`` derivations."""
    top = graph.derivations[graph.output]
    views: dict[str, str] = {}
    for text in top.inputs.values() if isinstance(top.inputs, Mapping) else ():
        for view in graph.derivations[Digest.parse(text)].references():
            name = _source(graph, view)
            if name is not None:
                views[view.hex] = name
    runs: dict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    for digest, derivation in graph.derivations.items():
        if derivation.kind == "source" and (name := _source(graph, digest)) is not None:
            runs[name][digest.hex] = derivation.inputs  # type: ignore[assignment]
    files: dict[str, Sequence[str]] = {}
    for name, lists in runs.items():
        files |= _files(lists, lock.in_order(name))
    return Names(views=views, files=files)


def known_names(store: Store, digest: Digest, target: str) -> Names:
    """The names that the recipe at ``target`` gives, or where it is a hash those that the store keeps of ``digest``."""
    from dsbuild.load.opening import is_recipe

    return recipe_names(store, Path(target)) if is_recipe(target) else read_names(store, digest)


def recipe_names(store: Store, path: Path) -> Names:
    """The names that a recipe and its lock give. Raises ``LockError`` if the lock does not cover it."""
    from dsbuild.load.opening import recipe_graph
    from dsbuild.recipe import lock_path, read_lock

    return names_of(recipe_graph(store, path), read_lock(lock_path(path)))


def keep_names(store: Store, graph: Graph, lock: Lock) -> None:
    """Write the names of a hash that was built into the store's cache, unless they are there; never an error."""
    with contextlib.suppress(OSError, DsbuildError, ValueError):
        path, data = names_path(store, graph.output), render_names(names_of(graph, lock))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)


def _source(graph: Graph, digest: Digest) -> str | None:
    """The name of the source that a derivation belongs to: its label is ``source.NAME`` or ``source.NAME/…``."""
    head, _, name = graph.label(digest).partition(".")
    return name.partition("/")[0] if head == "source" and name else None


def _files(lists: Mapping[str, Sequence[str]], locked: Sequence[LockedFile]) -> dict[str, Sequence[str]]:
    """The names of the files of each of ``lists`` (``source`` derivation -> ids), which are ``locked`` in order.

    Files of several formats make several lists; two equal ones are one derivation, and then content tells the names.
    """
    ends = [0]
    for ids in lists.values():
        ends.append(ends[-1] + len(ids))
    if ends[-1] == len(locked):
        found = zip(lists.items(), pairwise(ends), strict=True)
        parts = {text: (ids, locked[first:last]) for (text, ids), (first, last) in found}
        if all(_begins(ids[0], files[0]) and _begins(ids[-1], files[-1]) for ids, files in parts.values() if files):
            return {text: [file.name for file in files] for text, (_, files) in parts.items()}
    names: dict[str, list[str]] = defaultdict(list)
    for file in reversed(locked):
        names[file.id.hex].append(file.name)
    return {text: [_next(names[source_id[3:67]], source_id) for source_id in ids] for text, ids in lists.items()}


def _begins(source_id: str, file: LockedFile) -> bool:
    return source_id.startswith(f"b3:{file.id.hex}")


def _next(names: list[str], source_id: str) -> str:
    """The next name of a content, the last one again and again; its id where the lock has none."""
    return source_id if not names else names.pop() if len(names) > 1 else names[0]
