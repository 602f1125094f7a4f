"""Stream: what becomes of stored records: splits, packs and orders of them, mixtures, and the dataset, as derivations.

A mixture sees a source as a *view*: ``records``, then ``split``, ``pack`` and ``order`` where the recipe has them. Only
what decides the order of examples is said, so neither a source's name nor its place in a table can matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dsbuild.digest import Digest
from dsbuild.graph.chain import Mistakes
from dsbuild.graph.derivation import Derivation
from dsbuild.order import block, deal, era, fit, pack, permute, split, weights
from dsbuild.recipe.types import TOKENS, BlockShuffle, EraShuffle, MixtureSpec, Recipe, SourceSpec

Add = Callable[[Derivation, str], Digest]
"""Puts a derivation in the graph under a label for people; gives its digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The part of a graph that follows stored records.

    ``records``: the ``records`` derivation of each source that a mixture uses. ``pad``: the id of the pad token.
    """

    recipe: Recipe
    records: Mapping[str, Digest]
    pad: int | None
    add: Add
    mistakes: Mistakes

    def derive(self) -> Digest:
        """The dataset: the recipe's hash. Sources that are one view in a mixture go to ``mistakes``."""
        mixtures = {name: self._mixture(spec) for name, spec in self.recipe.mixtures.items()}
        top = Derivation(
            kind="dataset",
            builder="dataset@1",
            arguments=self._examples(),
            inputs={name: digest.hex for name, digest in mixtures.items()},
        )
        return self.add(top, self.recipe.name)

    def _mixture(self, spec: MixtureSpec) -> Digest:
        views = {name: self._view(self.recipe.sources[name], spec).hex for name in spec.sources}
        self._check_different(spec, views)
        names = sorted(views, key=views.__getitem__)
        arguments: dict[str, Any] = {"split": spec.name} | _weights(spec, names)
        if len(names) > 1:
            arguments |= {"seed": self.recipe.seed, "mix": weights.VERSION}
            if spec.by != "records":
                arguments["by"] = spec.by
            if spec.until != "all":
                arguments["until"] = spec.until
            if spec.max_epochs:
                arguments["max_epochs"] = {views[name]: cap for name, cap in spec.max_epochs.items()}
        elif (epochs := _epochs(spec)) != 1:
            arguments["until"] = epochs
        mixed = Derivation(
            kind="mixture", builder="mixture@1", arguments=arguments, inputs=[views[name] for name in names]
        )
        return self.add(mixed, f"mixture.{spec.name}")

    def _check_different(self, spec: MixtureSpec, views: Mapping[str, str]) -> None:
        """Two sources of one view are one source: it would have two weights, and permutations keyed by the view."""
        users: dict[str, list[str]] = {}
        for name, view in views.items():
            users.setdefault(view, []).append(name)
        for twins in users.values():
            if len(twins) > 1:
                at = spec.place(twins[1])
                self.mistakes.add(
                    f"mixture.{spec.name}.weights: {' and '.join(sorted(twins))} are the same records",
                    "conflict",
                    self.recipe.where_key(*at),
                    "merge their weights into one source",
                )

    def _view(self, source: SourceSpec, spec: MixtureSpec) -> Digest:
        """The derivation that the mixture of ``spec`` sees of ``source``."""
        mixture = spec.name
        at, label = self.records[source.name], f"source.{source.name}"
        if source.split:
            label = f"{label}/{mixture}"
            chosen = Derivation(
                kind="split",
                builder=f"split@{split.VERSION}",
                arguments={"name": mixture} | _bounds(source.split, mixture),
                inputs=[at.hex],
            )
            at = self.add(chosen, label)
        packed = self._pack(at, by_tokens=spec.by == "tokens" and len(spec.sources) > 1)
        if packed is not None:
            at = self.add(packed, f"{label}/{packed.name}")
        if source.interleave:
            dealt = Derivation(
                kind="order",
                builder=f"interleave@{deal.VERSION}",
                arguments={"readers": source.interleave},
                inputs=[at.hex],
            )
            at = self.add(dealt, label)
        return at

    def _pack(self, records: Digest, *, by_tokens: bool) -> Derivation | None:
        """The index that packs ``records`` (or a split of them), where examples are not known by arithmetic alone.

        So with ``overlong = "cut"`` the tokens that are left, which sources are weighed ``by_tokens`` that are served.
        """
        spec = self.recipe.examples
        if spec.pack == "fit":
            builder = f"fit@{fit.VERSION}"
        elif spec.pack == "none" and (spec.overlong == "drop" or (spec.overlong == "cut" and by_tokens)):
            builder = f"each@{fit.VERSION}"
        else:
            return None
        arguments: dict[str, Any] = {"length": spec.length}
        if spec.overlong != "error":
            arguments["overlong"] = spec.overlong
        return Derivation(kind="pack", builder=builder, arguments=arguments, inputs=[records.hex])

    def _examples(self) -> dict[str, Any]:
        spec = self.recipe.examples
        versions = {"pack": pack.VERSION}
        found: dict[str, Any] = {"length": spec.length, "pack": spec.pack, "shuffle": "full", "versions": versions}
        if isinstance(spec.shuffle, BlockShuffle):
            found["shuffle"] = {"block": spec.shuffle.block, "window": spec.shuffle.window}
            versions["block"] = block.VERSION
        elif isinstance(spec.shuffle, EraShuffle):
            found["shuffle"] = {"era": spec.shuffle.era}
            versions["era"] = era.VERSION
        else:
            found["shuffle"] = spec.shuffle
        if spec.shuffle != "none":
            found["seed"] = self.recipe.seed
            versions["permute"] = permute.VERSION
        if spec.mask != "none":
            found["mask"] = spec.mask
        if spec.overlong != "error":
            found["overlong"] = spec.overlong
        if spec.columns:
            found["columns"] = sorted(spec.columns)
        shapes = {name: length for name, length in spec.pad.items() if name not in TOKENS}
        if shapes:
            found["shapes"] = shapes
        if self.pad is not None:
            found["pad"] = self.pad
        return found


def _weights(spec: MixtureSpec, names: list[str]) -> dict[str, Any]:
    """The weights of the sources ``names`` in that order, as integers: ``weights``, or ``stages`` where they change."""
    stages = [
        {"from": stage.first, "weights": weights.integer_weights([stage.weights.get(n, Fraction(0)) for n in names])}
        for stage in spec.stages
    ]
    if len(stages) == 1 or len(names) == 1:  # one source has every example, whatever its weight
        return {"weights": stages[0]["weights"]}
    return {"stages": stages}


def _epochs(spec: MixtureSpec) -> Fraction:
    """Of a mixture of one source, the epochs that it gives: its stream ends there, whichever keys say so.

    With N examples and a limit L (endless without a cap c, else floor(c N)), "first" and "all" both end after
    min(L, N), and E epochs after min(L, floor(E N)); and the lesser of floors is the floor of the lesser.
    """
    until = Fraction(1) if isinstance(spec.until, str) else spec.until
    return min(until, *spec.max_epochs.values()) if spec.max_epochs else until


def _bounds(shares: Mapping[str, Fraction | int], name: str) -> dict[str, Any]:
    """What decides the records of the split ``name``: a range of keys, or, where any share is a count, all shares."""
    counts = {n: share for n, share in shares.items() if isinstance(share, int)}
    fractions = {n: share for n, share in shares.items() if isinstance(share, Fraction)}
    if counts:
        return {"counts": counts, "fractions": fractions}
    low, high = split.thresholds(fractions)[name]
    return {"low": low, "high": high}
