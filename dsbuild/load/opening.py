"""Opening: a hash or a recipe becomes a Dataset, from the store's records and manifests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dsbuild.digest import Digest
from dsbuild.errors import LockError, NotFoundError, RecipeError
from dsbuild.graph import Derivation, Graph, ViewSize, mixture_of, parse
from dsbuild.load.dataset import Dataset
from dsbuild.load.shape import Shape, shape_of
from dsbuild.load.source import Opened, Source, open_source
from dsbuild.order.mix import Mixture
from dsbuild.schema import NUMBERS
from dsbuild.store import Store
from dsbuild.store.names import read_names


def open_dataset(
    target: str | Path, *, split: str = "train", store: str | Path | Store | None = None, follow: bool = False
) -> Dataset:
    """The dataset that ``target`` names: a recipe's hash (or a unique prefix), or the path of a recipe with a lock.

    ``split``: the mixture's name. ``store``: a store's directory; by default the one that the command line would use.
    Raises ``NotFoundError`` for an unknown hash, mixture or store, ``CorruptError`` for damaged records of it, and
    ``BuildError`` where the mixture's numbers make no stream, which a build refuses.
    """
    if follow:
        raise RecipeError(
            "follow: reading while building is not served by this release",
            kind="not-yet",
            hint="build first, then open the hash",
        )
    opened = _store(target, store)
    digest = resolve_target(opened, target)
    top = derivation_of(opened, digest)
    if top.kind != "dataset":
        raise NotFoundError(f"{digest.short} is a {top.kind}, not a recipe's hash", kind="not-found")
    assert isinstance(top.inputs, Mapping)
    if split not in top.inputs:
        raise NotFoundError(
            f"mixture '{split}': {digest.short} has {', '.join(sorted(top.inputs))}",
            kind="not-found",
            hint=f"open_dataset(…, split={sorted(top.inputs)[0]!r})",
        )
    shape, spec = shape_of(top), derivation_of(opened, Digest.parse(top.inputs[split]))
    parts, names = Opened(), read_names(opened, digest)
    sources = tuple(
        open_source(opened, lambda d: derivation_of(opened, d), d, shape, parts, names.source(d))
        for d in spec.references()
    )
    _check_lengths(split, sources)
    _check_columns(shape, sources)
    return Dataset(
        digest=digest,
        split=split,
        store=opened,
        shape=shape,
        sources=sources,
        mixture=_mixture(split, spec, sources),
        shuffle=top.arguments["shuffle"],
        seed=int(top.arguments.get("seed", 0)),
    )


def _check_lengths(split: str, sources: Sequence[Source]) -> None:
    empty = [str(s) for s in sources if s.length == 0]
    if empty:
        raise NotFoundError(
            f"mixture '{split}': {len(empty)} of its sources give no example ({', '.join(empty)})",
            kind="empty",
            hint="a source needs at least 2 tokens; leave an empty one out of the mixture's weights",
        )


def _check_columns(shape: Shape, sources: Sequence[Source]) -> None:
    """A build refuses such columns when it ends; a dataset may be opened before it has."""
    for source in sources:
        for name in shape.further:
            if name not in source.records.schema or source.records.schema[name].dtype not in NUMBERS:
                raise NotFoundError(
                    f"source {source}: gives no column '{name}' of numbers",
                    kind="missing-column",
                    hint="'dsbuild build RECIPE' says what is wrong with it",
                )


def _mixture(name: str, spec: Derivation, sources: Sequence[Source]) -> Mixture:
    return mixture_of(
        spec,
        name,
        [ViewSize(label=f"source {s}", examples=s.length, tokens=s.tokens) for s in sources],
    )


def _store(target: str | Path, store: str | Path | Store | None) -> Store:
    if isinstance(store, Store):
        return store
    import os

    from dsbuild.store import find_store

    directory = Path(target).parent if is_recipe(str(target)) else None
    return Store.open(find_store(directory, None if store is None else str(store), dict(os.environ)), readonly=True)


def resolve_target(store: Store, target: str | Path) -> Digest:
    """The digest that ``target`` names: hexadecimal digits, or the path of a recipe with a lock beside it."""
    text = str(target)
    return recipe_graph(store, Path(text)).output if is_recipe(text) else store.resolve(text)


def is_recipe(target: str) -> bool:
    """Whether ``target`` is the path of a recipe, not a hash."""
    return target.endswith((".toml", ".json"))


def recipe_graph(store: Store, path: Path) -> Graph:
    """The graph of a recipe by its lock, with names for people. Raises ``LockError`` if the lock does not cover it."""
    from dsbuild.graph import instantiate
    from dsbuild.recipe import load_recipe, lock_path, read_lock

    recipe = load_recipe(path)
    lock = read_lock(lock_path(recipe.path))
    if not lock.covers_recipe(recipe):
        raise LockError(
            f"{recipe.path}: names files, patterns, tokens or a tokenizer that its lock does not know",
            kind="lock-mismatch",
            hint=f"'dsbuild build {recipe.path} --update' looks at them and accepts them",
        )
    return instantiate(recipe, lock, store.derivation).graph


def derivation_of(store: Store, digest: Digest) -> Derivation:
    """The derivation ``digest``. Raises ``NotFoundError``."""
    data = store.derivation(digest)
    if data is None:
        raise NotFoundError(
            f"{digest.hex}: no such derivation in the store at {store.root}",
            kind="not-found",
            hint="'dsbuild build RECIPE' puts it there; 'dsbuild list' shows what is there",
        )
    return parse(data)
