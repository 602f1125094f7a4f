"""Mixing: a ``mixture`` derivation and the numbers of its views, known once these are built, become its stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dsbuild.errors import BuildError
from dsbuild.graph.derivation import Derivation
from dsbuild.order.mix import DryStage, Mixture, Stage
from dsbuild.order.slots import MOST
from dsbuild.order.weights import phase_seed, token_weights

_TOLD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSize:
    """Of a view the ``label`` for people, and in one epoch its ``examples`` and the ``tokens`` that they serve."""

    label: str
    examples: int
    tokens: int


def mixture_of(spec: Derivation, name: str, views: Sequence[ViewSize]) -> Mixture:
    """The stream of the mixture ``name``, which ``spec`` is; ``views``: sizes of its inputs, in their order.

    Raises ``BuildError`` that names the mixture, the source and the numbers where they make no stream.
    """
    a, ids = spec.arguments, list(spec.references())
    by_tokens = a.get("by") == "tokens"
    _check_views(name, views, by_tokens=by_tokens)
    seed, until = int(a.get("seed", 0)), a.get("until", "all")
    stages = a.get("stages") or [{"from": 0, "weights": a["weights"]}]
    caps = [a.get("max_epochs", {}).get(digest.hex) for digest in ids]
    try:
        made = Mixture(
            ids=tuple(d.raw for d in ids),
            lengths=tuple(v.examples for v in views),
            stages=tuple(
                Stage(
                    first=int(stage["from"]),
                    weights=_weights(stage["weights"], views, by_tokens=by_tokens),
                    phases=tuple(phase_seed(seed, number, d) for d in ids),
                )
                for number, stage in enumerate(stages)
            ),
            caps=tuple(_cap(name, cap, view) for cap, view in zip(caps, views, strict=True)),
            until=until,
        )
    except DryStage as error:
        hint = "start the later stage sooner, weigh more sources before it, or raise until or max_epochs"
        raise BuildError(f"mixture.{name}: {error} ({_told(views)})", kind="empty", hint=hint) from None
    except ValueError as error:
        hint = "lower until or max_epochs, or use weights that differ less"
        raise BuildError(f"mixture.{name}: {error} ({_told(views)})", kind="bad-value", hint=hint) from None
    if made.length == 0:
        seen = f"until = {{ epochs = {_number(until)} }} of" if not isinstance(until, str) else "of"
        message = f"mixture.{name}: gives no example: {seen} {_told(views)}"
        raise BuildError(
            message, kind="empty", hint="raise until or max_epochs: what is left of a source is rounded down"
        )
    return made


def _check_views(name: str, views: Sequence[ViewSize], *, by_tokens: bool) -> None:
    for view in views:
        if view.examples == 0:
            hint = "look at its files and filters, or leave it out of the mixture's weights"
            raise BuildError(f"mixture.{name}: {view.label} gives no example", kind="empty", hint=hint)
        if by_tokens and view.tokens == 0:
            seen = f"{view.label} has no token in its {view.examples:,} examples"
            raise BuildError(
                f'mixture.{name}: {seen}, and by = "tokens" weighs by them',
                kind="empty",
                hint='leave it out of the mixture\'s weights, or use by = "records"',
            )


def _weights(weights: Sequence[int], views: Sequence[ViewSize], *, by_tokens: bool) -> tuple[int, ...]:
    """Weights of examples: as they stand, or so that tokens have these proportions (rule: w n_s / T_s)."""
    if not by_tokens:
        return tuple(int(w) for w in weights)
    return tuple(token_weights([Fraction(int(w) * v.examples, v.tokens) for w, v in zip(weights, views, strict=True)]))


def _cap(name: str, epochs: Fraction | int | None, view: ViewSize) -> int | None:
    """The most examples of a source; None where no stream is long enough to reach it."""
    if epochs is None:
        return None
    cap = int(epochs * view.examples)
    if cap == 0:
        seen = f"max_epochs = {_number(epochs)} of its {view.examples:,} examples"
        raise BuildError(
            f"mixture.{name}: {view.label} gives no example: {seen}",
            kind="empty",
            hint="raise its max_epochs (what is left is rounded down), or leave it out of the weights",
        )
    return cap if cap <= MOST else None


def _number(value: Any) -> str:
    """An exact number for people."""
    number = Fraction(value)
    return str(number) if number.denominator == 1 else f"{float(number):g}"


def _told(views: Sequence[ViewSize]) -> str:
    """What the views have, a few of them."""
    listed = [f"{v.label}: {v.examples:,} examples" for v in views[:_TOLD]]
    return ", ".join(listed if len(views) <= _TOLD else [*listed, f"and {len(views) - _TOLD:,} more"])
