"""Mixture tables: ``[mixture.NAME]`` with its weights or stages, its end and its caps, checked key by key."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dsbuild.order.weights import integer_weights
from dsbuild.recipe.nodes import ELSEWHERE
from dsbuild.recipe.table import Table, shown, told
from dsbuild.recipe.types import MixtureSpec, StageSpec

MIXTURE_KEYS = ("weights", "until", "by", "max_epochs", "stages")
STAGE_KEYS = ("from", "weights")

_WEIGHTS = "weights = { SOURCE = 1 }"
_STAGES = "stages = [{ from = 0, weights = { SOURCE = 1 } }]"
_MOST_EXAMPLES = 1 << 60


def mixture_spec(name: str, table: Table) -> MixtureSpec:
    """The mixture of a table; its mistakes are in the table's report."""
    table.only(MIXTURE_KEYS, ELSEWHERE)
    if table.has("weights") and table.has("stages"):
        hint = "weights that hold from the start on are the first stage's"
        message = "'weights' and 'stages' exclude each other"
        table.report.add("conflict", table.at("stages"), message, hint, key=True)
    elif table.lacks("weights") and table.lacks("stages"):
        table.report.add("missing-key", table.path, "'weights' is missing", f"{_WEIGHTS}, or {_STAGES}", key=True)
    return MixtureSpec(
        name=name,
        stages=_stages(table) if table.has("stages") else (_stage(table, 0),),
        until=_until(table),
        by=table.text("by", "records", ("records", "tokens")),
        max_epochs=_max_epochs(table),
    )


def _stages(table: Table) -> tuple[StageSpec, ...]:
    value = table.values["stages"]
    if not isinstance(value, list):
        table.wrong_type("stages", "a list of tables", _STAGES)
        return ()
    if not value:
        table.report.add("bad-value", table.at("stages"), "no stage is there", _STAGES)
    found: list[StageSpec] = []
    for number, item in enumerate(value):
        path = (*table.at("stages"), number)
        if not isinstance(item, dict):
            table.report.add("bad-type", path, f"a table is wanted here, not {told(item)}", _STAGES)
            continue
        inner = Table(report=table.report, path=path, values=item)
        inner.only(STAGE_KEYS, dict.fromkeys(MIXTURE_KEYS, "[mixture.NAME]"))
        inner.need("from", "from = 0: the example that the stage starts at")
        inner.need("weights", _WEIGHTS)
        found.append(_stage(inner, _first(inner, number, found)))
    return tuple(found)


def _first(stage: Table, number: int, before: Sequence[StageSpec]) -> int:
    """The example that stage ``number`` starts at, after those ``before`` it."""
    least = before[-1].first + 1 if before else 0
    first = stage.values.get("from", least)
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first <= _MOST_EXAMPLES:
        stage.integer("from", 0, 0, _MOST_EXAMPLES)
        return least
    if number == 0 and first != 0:
        hint = "from = 0: the first stage's weights hold from the start on"
        stage.report.add("bad-value", stage.at("from"), f"the first stage starts at {first}", hint)
        return 0
    if first < least:
        message = f"{first} does not come after {least - 1}, where the stage before it starts"
        stage.report.add("bad-value", stage.at("from"), message, "stages stand in the order in which they come")
        return least
    return first


def _stage(table: Table, first: int) -> StageSpec:
    """The stage of the weights of ``table``."""
    weights = table.table("weights", _WEIGHTS)
    found, right = {}, True
    for name, value in weights.values.items():
        weight = weights.ratio(name)
        if weight is not None and weight <= 0:
            hint = "leave the source out" if weight == 0 else "weights are shares: positive, of any sum"
            weights.report.add("bad-value", weights.at(name), f"the weight {shown(value)} is not positive", hint)
        right = right and weight is not None and weight > 0
        found[name] = weight if weight is not None and weight > 0 else Fraction(1)
    if table.has("weights") and isinstance(table.values["weights"], dict) and not found:
        table.report.add("bad-value", table.at("weights"), "no source is named", _WEIGHTS, key=True)
    if found and right:
        _check_exact(table, tuple(found.values()))
    return StageSpec(first=first, weights=found, path=table.at("weights"))


def _check_exact(table: Table, ratios: Sequence[Fraction]) -> None:
    try:
        integer_weights(ratios)
    except ValueError:
        message = "as whole numbers in these proportions, a weight reaches 2^48 or their sum 2^56"
        hint = "write rounder weights: beyond that a mixture would not be exact"
        table.report.add("bad-value", table.at("weights"), message, hint, key=True)


def _max_epochs(table: Table) -> dict[str, Fraction]:
    caps = table.table("max_epochs", "max_epochs = { SOURCE = 2 }")
    found = {}
    for name, value in caps.values.items():
        cap = caps.ratio(name)
        if cap is not None and cap <= 0:
            hint = "leave the source out of the weights" if cap == 0 else "a positive number"
            caps.report.add("bad-value", caps.at(name), f"{shown(value)} epochs are no cap", hint)
        found[name] = cap if cap is not None and cap > 0 else Fraction(1)
    if table.has("max_epochs") and caps.is_table and not found:
        hint = "leave 'max_epochs' out to have no caps"
        table.report.add("bad-value", table.at("max_epochs"), "no source is named", hint, key=True)
    return found


def _until(table: Table) -> str | Fraction:
    hint = 'until = "first", "all" or { epochs = 3 }'
    if not table.has("until"):
        return "all"
    if not isinstance(table.values["until"], dict):
        if isinstance(table.values["until"], str):
            return table.text("until", "all", ("first", "all"))
        table.wrong_type("until", "text or a table", hint)
        return "all"
    until = table.table("until")
    until.only(("epochs",))
    until.need("epochs", hint)
    epochs = until.ratio("epochs") if until.has("epochs") else None
    if epochs is not None and epochs <= 0:
        shown_value = shown(until.values["epochs"])
        until.report.add("bad-value", until.at("epochs"), f"{shown_value} epochs are no dataset", "a positive number")
    return epochs if epochs is not None and epochs > 0 else Fraction(1)
