"""Tokenizer, mixture and examples tables, checked key by key."""

from __future__ import annotations

from fractions import Fraction

from dsbuild.recipe.source import REMOTE, REMOTE_REASON, check_file_name
from dsbuild.recipe.table import Table, shown
from dsbuild.recipe.types import ExamplesSpec, MixtureSpec, TokenizerSpec
from dsbuild.schema import check_name

TOKENIZER_KEYS = ("file", "eos", "bos", "pad", "special")
MIXTURE_KEYS = ("weights", "until", "by", "max_epochs", "stages")
EXAMPLES_KEYS = ("length", "pack", "mask", "shuffle", "overlong", "columns", "pad")

_STREAM = "it comes with the stream release"
ELSEWHERE = {
    "eos": "[tokenizer]",
    "bos": "[tokenizer]",
    "special": "[tokenizer]",
    "tokenizer": "a table of its own, [tokenizer]",
    "split": "[source.NAME]",
    "order": "[source.NAME]",
    "files": "[source.NAME]",
    "handlers": "[source.NAME]",
    "length": "[examples]",
    "pack": "[examples]",
    "shuffle": "[examples]",
    "mask": "[examples]",
    "weights": "[mixture.NAME]",
    "until": "[mixture.NAME]",
    "seed": "the top of the recipe",
    "name": "the top of the recipe",
}
"""Where a key that stands in the wrong table belongs."""


def tokenizer_spec(table: Table) -> TokenizerSpec:
    """The tokenizer of a table; its mistakes are in the table's report."""
    table.only(TOKENIZER_KEYS, ELSEWHERE)
    table.need("file", 'file = "tokenizer.json", or "bytes" (built in)')
    file = table.maybe_text("file") or "bytes"
    if not file.startswith(REMOTE):
        check_file_name(table, table.at("file"), file)
    else:
        table.report.add("not-yet", table.at("file"), f"{shown(file)} is not served yet: {REMOTE_REASON}")
    return TokenizerSpec(
        file=file,
        eos=table.maybe_text("eos"),
        bos=table.maybe_text("bos"),
        pad=table.maybe_text("pad"),
        special=table.text("special", "text", ("text", "token")),
    )


def mixture_spec(name: str, table: Table) -> MixtureSpec:
    """The mixture of a table; its mistakes are in the table's report."""
    table.only(MIXTURE_KEYS, ELSEWHERE)
    table.need("weights", "weights = { SOURCE = 1 }")
    table.later("stages", f"weights that change along the stream; {_STREAM}")
    table.later("max_epochs", f"caps per source; {_STREAM}")
    if table.text("by", "records", ("records", "tokens")) == "tokens":
        reason = f'not served yet: weights by tokens; {_STREAM}; write by = "records"'
        table.report.add("not-yet", table.at("by"), reason)
    return MixtureSpec(name=name, weights=_weights(table), until=_until(table))


def _weights(table: Table) -> dict[str, Fraction]:
    weights = table.table("weights", "weights = { SOURCE = 1 }")
    found = {}
    for name, value in weights.values.items():
        weight = weights.ratio(name)
        if weight is not None and weight <= 0:
            hint = "leave the source out" if weight == 0 else "weights are shares: positive, of any sum"
            weights.report.add("bad-value", weights.at(name), f"the weight {shown(value)} is not positive", hint)
        found[name] = weight if weight is not None and weight > 0 else Fraction(1)
    if table.has("weights") and isinstance(table.values["weights"], dict) and not found:
        table.report.add("bad-value", table.at("weights"), "no source is named", "weights = { SOURCE = 1 }", key=True)
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


def examples_spec(table: Table) -> ExamplesSpec:
    """The examples of a table; its mistakes are in the table's report."""
    table.only(EXAMPLES_KEYS, ELSEWHERE)
    table.need("length", "length = 2048: tokens of an example")
    table.later("pad", "static shapes come with the images and audio release")
    pack = _choice(table, "pack", "concat", ("concat", "none"), {"fit": f"packing whole records; {_STREAM}"})
    later = {"drop": f"leaving out long records; {_STREAM}"}
    overlong = _choice(table, "overlong", "error", ("error", "cut"), later)
    if pack == "concat" and table.text("pack", "concat") == "concat" and table.has("overlong"):
        hint = 'pack = "none" makes one example of one record; with pack = "concat" no record is too long'
        table.report.add("conflict", table.at("overlong"), 'only pack = "none" has it', hint, key=True)
    columns = []
    for path, name in table.texts("columns"):
        try:
            columns.append(check_name(name))
        except ValueError as error:
            table.report.add("bad-name", path, str(error))
    return ExamplesSpec(
        length=table.integer("length", 1, 1, (1 << 31) - 1),
        pack=pack,
        mask=_choice(table, "mask", "none", ("none", "document"), {"prefix": f"loss after a prefix; {_STREAM}"}),
        shuffle=_shuffle(table),
        overlong=overlong,
        columns=tuple(columns),
    )


def _choice(table: Table, key: str, default: str, served: tuple[str, ...], later: dict[str, str]) -> str:
    """One of ``served``; ``later``: choices of the language with the reason why they are refused."""
    value = table.text(key, default, (*served, *later))
    if value in later:
        table.report.add("not-yet", table.at(key), f"{shown(value)} is not served yet: {later[value]}")
        return default
    return value


def _shuffle(table: Table) -> str:
    value = table.values.get("shuffle", "full")
    if not isinstance(value, dict):
        return table.text("shuffle", "full", ("full", "none"))
    shuffle = table.table("shuffle")
    shuffle.only(("block", "window", "era"))
    kind = "era" if "era" in value else "block"
    if value and set(value) <= {"block", "window", "era"}:
        reason = f"not served yet: shuffling by {kind}; {_STREAM}"
        table.report.add("not-yet", table.at("shuffle"), reason, '"full" or "none"')
    elif not value:
        table.wrong_type("shuffle", '"full" or "none"')
    return "full"
