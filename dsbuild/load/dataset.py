"""Dataset: the ordered examples that a hash names. A view: no copy, no state; any step by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dsbuild.digest import Digest
from dsbuild.errors import DsbuildError, LockError, NotFoundError, RecipeError
from dsbuild.graph import Derivation, Graph, parse
from dsbuild.load.gather import Shape, allocate, fill
from dsbuild.load.loader import Loader
from dsbuild.load.source import Source, open_source
from dsbuild.order.mix import Mixture, Stage
from dsbuild.order.partition import positions
from dsbuild.order.permute import Permutation, key
from dsbuild.order.weights import phase_seed
from dsbuild.store import Store

Batch = dict[str, np.ndarray]

PERMUTATIONS_KEPT = 4096
"""Permutations remembered by (source, epoch): each is a few words, or a table of at most 4,096 numbers."""


class RangeError(DsbuildError, IndexError):
    """A step, example or rank outside of the dataset."""

    exit_code = 4
    title = "not found"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Dataset:
    """The examples of one mixture of a recipe, in the order that the recipe's hash fixes.

    ``len(dataset)`` examples; ``batch(step, size)`` is examples [step * size, (step + 1) * size).
    """

    digest: Digest
    split: str
    store: Store
    shape: Shape
    sources: tuple[Source, ...]
    mixture: Mixture
    seed: int | None
    permutations: dict[tuple[int, int], Permutation] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"<Dataset {self.digest.short} {self.split}: {len(self):,} examples of {self.shape.length} tokens>"

    def __len__(self) -> int:
        assert self.mixture.length is not None
        return self.mixture.length

    def steps(self, size: int) -> int:
        """Whole batches of ``size`` examples; a last partial batch is dropped."""
        if size < 1:
            raise RangeError(f"batches of {size} examples: must be at least 1", kind="out-of-range")
        return len(self) // size

    def locate(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """(source number, example of that source) of positions [start, stop), each int64."""
        sources, slots = self.mixture.locate(start, stop)
        found = np.empty(stop - start, np.int64)
        for number, source in enumerate(self.sources):
            mine = np.flatnonzero(sources == number)
            epochs, indices = np.divmod(slots[mine], source.length)
            if self.seed is not None:
                for epoch in np.unique(epochs):
                    at = epochs == epoch
                    indices[at] = self._permutation(number, int(epoch))(indices[at])
            found[mine] = indices
        return sources, found

    def share(self, step: int, size: int, rank: int, world: int) -> tuple[int, int]:
        """[start, stop) of the stream that is ``rank``'s of step ``step``. Raises ``RangeError``."""
        try:
            return positions(step, size, rank, world)
        except ValueError as error:
            raise RangeError(str(error), kind="out-of-range") from None

    def example(self, index: int) -> Batch:
        """Example ``index`` of the stream, 0 <= index < len: a dict of arrays [L]."""
        if not 0 <= index < len(self):
            raise RangeError(f"example {index}: the dataset has {len(self)}", kind="out-of-range")
        return {n: a[0] for n, a in self._rows(index, index + 1, np.dtype(np.int32), None).items()}

    def batch(
        self,
        step: int,
        size: int,
        rank: int = 0,
        world: int = 1,
        *,
        dtype: Any = np.int32,
        columns: Sequence[str] | None = None,
    ) -> Batch:
        """Rank ``rank``'s rows of step ``step``: a dict of arrays [size / world, L].

        ``input_ids`` of ``dtype``; ``labels`` int32, shifted by one, -100 where there is no loss; with a document mask
        ``segment_ids`` (0 = padding) and ``position_ids``. Raises ``RangeError`` past the end, and where ``world`` does
        not divide ``size``.
        """
        if not 0 <= step < self.steps(size):
            raise RangeError(
                f"step {step}: the dataset has {self.steps(size)} whole batches of {size}",
                kind="out-of-range",
                hint="'until = { epochs = N }' in the mixture makes it longer",
            )
        start, stop = self.share(step, size, rank, world)
        return self._rows(start, stop, self._dtype(dtype), columns)

    def loader(
        self, size: int, rank: int = 0, world: int = 1, *, start: int = 0, prefetch: int = 2, **options: Any
    ) -> Loader:
        """An iterator over batches from step ``start``, made ahead by a thread; see ``Loader``."""
        return Loader(dataset=self, size=size, rank=rank, world=world, step=start, prefetch=prefetch, options=options)

    def __iter__(self) -> Iterator[Batch]:
        return (self.example(i) for i in range(len(self)))

    def _dtype(self, wanted: Any) -> np.dtype[Any]:
        """``wanted`` as a dtype that holds every token id. Raises ``RangeError``."""
        try:
            dtype: np.dtype[Any] = np.dtype(wanted)
        except TypeError:
            raise RangeError(f"dtype {wanted!r}: numpy knows no such dtype", kind="out-of-range") from None
        stored = max(np.dtype(s.records.schema["input_ids"].dtype).itemsize for s in self.sources)
        if dtype.kind not in "iu" or dtype.itemsize < stored or (dtype.kind == "i" and dtype.itemsize * 8 < 17):
            raise RangeError(f"dtype {dtype}: does not hold every token id of this dataset", kind="out-of-range")
        return dtype

    def _permutation(self, source: int, epoch: int) -> Permutation:
        assert self.seed is not None
        found = self.permutations.get((source, epoch))
        if found is None:
            view = self.sources[source]
            found = Permutation(key(self.seed, view.digest, epoch), view.length)
            if len(self.permutations) >= PERMUTATIONS_KEPT:
                self.permutations.clear()
            self.permutations[source, epoch] = found
        return found

    def _rows(self, start: int, stop: int, dtype: np.dtype[Any], columns: Sequence[str] | None) -> Batch:
        names = self.shape.columns() if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
        unknown = [n for n in names if n not in self.shape.columns()]
        if unknown:
            raise RangeError(f"columns {unknown}: this dataset gives {list(self.shape.columns())}", kind="out-of-range")
        out = allocate(self.shape, stop - start, dtype, names)
        sources, indices = self.locate(start, stop)
        for row, (source, index) in enumerate(zip(sources.tolist(), indices.tolist(), strict=True)):
            fill(self.shape, self.sources[source], index, out, row)
        return out


def open_dataset(
    target: str | Path, *, split: str = "train", store: str | Path | Store | None = None, follow: bool = False
) -> Dataset:
    """The dataset that ``target`` names: a recipe's hash (or a unique prefix), or the path of a recipe with a lock.

    ``split``: the mixture's name. ``store``: a store's directory; by default the one that the command line would use.
    Raises ``NotFoundError`` for an unknown hash, mixture or store and ``CorruptError`` for damaged records of it.
    """
    if follow:
        raise RecipeError(
            "follow: reading while building is not served by this release",
            kind="not-yet",
            hint="build first, then open the hash",
        )
    opened = _store(target, store)
    digest = resolve_target(opened, target)
    top = _derivation(opened, digest)
    if top.kind != "dataset":
        raise NotFoundError(f"{digest.short} is a {top.kind}, not a recipe's hash", kind="not-found")
    assert isinstance(top.inputs, Mapping)
    if split not in top.inputs:
        raise NotFoundError(
            f"mixture '{split}': {digest.short} has {', '.join(sorted(top.inputs))}",
            kind="not-found",
            hint=f"open_dataset(…, split={sorted(top.inputs)[0]!r})",
        )
    return _dataset(opened, digest, top, split, Digest.parse(top.inputs[split]))


def _dataset(store: Store, digest: Digest, top: Derivation, split: str, mixture: Digest) -> Dataset:
    spec, a = _derivation(store, mixture), top.arguments
    shape = Shape(
        length=int(a["length"]),
        packed=a["pack"] == "concat",
        documents=a.get("mask") == "document",
        pad=int(a.get("pad", 0)),
        overlong=str(a.get("overlong", "error")),
    )
    sources = tuple(
        open_source(store, lambda d: _derivation(store, d), view, window=shape.length, packed=shape.packed)
        for view in spec.references()
    )
    empty = [s.digest.short for s in sources if s.length == 0]
    if empty:
        raise NotFoundError(
            f"mixture '{split}': {len(empty)} of its sources give no example ({', '.join(empty)})",
            kind="empty",
            hint="a source needs at least 2 tokens; leave an empty one out of the mixture's weights",
        )
    seed = int(spec.arguments.get("seed", 0))
    return Dataset(
        digest=digest,
        split=split,
        store=store,
        shape=shape,
        sources=sources,
        mixture=_mixture(spec, sources, seed),
        seed=int(a["seed"]) if a["shuffle"] == "full" else None,
    )


def _mixture(spec: Derivation, sources: Sequence[Source], seed: int) -> Mixture:
    ids = [s.digest for s in sources]
    stage = Stage(
        first=0,
        weights=tuple(int(w) for w in spec.arguments["weights"]),
        phases=tuple(phase_seed(seed, 0, d) for d in ids),
    )
    return Mixture(
        ids=tuple(d.raw for d in ids),
        lengths=tuple(s.length for s in sources),
        stages=(stage,),
        until=spec.arguments.get("until", "all"),
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


def _derivation(store: Store, digest: Digest) -> Derivation:
    data = store.derivation(digest)
    if data is None:
        raise NotFoundError(
            f"{digest.hex}: no such derivation in the store at {store.root}",
            kind="not-found",
            hint="'dsbuild build RECIPE' puts it there; 'dsbuild list' shows what is there",
        )
    return parse(data)
