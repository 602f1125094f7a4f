"""Tokenizer and examples tables, checked key by key."""

from __future__ import annotations

from collections.abc import Mapping

from dsbuild.recipe.source import REMOTE, REMOTE_REASON, check_file_name
from dsbuild.recipe.suggest import did_you_mean
from dsbuild.recipe.table import Table, shown
from dsbuild.recipe.types import TOKENS, BlockShuffle, EraShuffle, ExamplesSpec, TokenizerSpec
from dsbuild.schema import check_name

TOKENIZER_KEYS = ("file", "eos", "bos", "pad", "special")
EXAMPLES_KEYS = ("length", "pack", "mask", "shuffle", "overlong", "columns", "pad")

OURS = ("segment_ids", "position_ids", "prefix_mask", "cu_seqlens")
"""Names of what a mask adds to the columns."""

_LONGEST = (1 << 31) - 1
_MOST_SHUFFLED = 1 << 48
_MOST_BLOCK = 1 << 24
_SHUFFLES = '"full", "none", { block = 1024, window = 64 } or { era = 1_000_000 }'

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
    "overlong": "[examples]",
    "columns": "[examples]",
    "weights": "[mixture.NAME]",
    "until": "[mixture.NAME]",
    "by": "[mixture.NAME]",
    "stages": "[mixture.NAME]",
    "max_epochs": "[mixture.NAME]",
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


def examples_spec(table: Table) -> ExamplesSpec:
    """The examples of a table; its mistakes are in the table's report."""
    table.only(EXAMPLES_KEYS, ELSEWHERE)
    table.need("length", "length = 2048: tokens of an example")
    spec = ExamplesSpec(
        length=table.integer("length", 1, 1, _LONGEST),
        pack=table.text("pack", "concat", ("concat", "fit", "none")),
        mask=table.text("mask", "none", ("none", "document", "prefix")),
        shuffle=_shuffle(table),
        overlong=table.text("overlong", "error", ("error", "cut", "drop")),
        columns=_columns(table),
        pad=_pad(table),
    )
    if table.values.get("pack", "concat") == "concat":
        _check_concat(table)
    elif not spec.has_tokens:
        _check_without_tokens(table, spec)
    if table.has("pad") and table.values["pad"] and isinstance(table.values["pad"], Mapping):
        _check_pad(table, spec)
    return spec


def _columns(table: Table) -> tuple[str, ...]:
    columns = []
    for path, name in table.texts("columns"):
        try:
            columns.append(check_name(name))
        except ValueError as error:
            table.report.add("bad-name", path, str(error))
            continue
        if name in OURS:
            message = f"{shown(name)} is what a mask gives, no column of a record"
            table.report.add("bad-name", path, message, "leave it out, and choose the mask")
        elif name.startswith("@"):
            table.report.add("bad-name", path, f"{shown(name)} is dsbuild's own", "a name without '@'")
    return tuple(columns)


def _pad(table: Table) -> dict[str, int]:
    pad = table.table("pad", "pad = { audio = 3000 }")
    if table.has("pad") and pad.is_table and not pad.values:
        hint = "leave 'pad' out where no column differs in length"
        table.report.add("bad-value", table.at("pad"), "no column is named", hint, key=True)
    lengths = {name: pad.integer(name, 0, 1, _LONGEST) for name in pad.values}
    return {name: length for name, length in lengths.items() if length}


def _check_concat(table: Table) -> None:
    """What makes no sense in windows that begin and end anywhere."""
    if table.has("overlong"):
        hint = 'pack = "fit" and "none" keep records whole; with pack = "concat" no record is too long'
        table.report.add("conflict", table.at("overlong"), 'pack = "concat" has no use for it', hint, key=True)
    if table.values.get("mask") == "prefix":
        hint = 'pack = "fit" or "none" keeps records whole'
        message = 'an example of pack = "concat" may begin inside a record, after its prefix'
        table.report.add("conflict", table.at("mask"), message, hint)


def _check_without_tokens(table: Table, spec: ExamplesSpec) -> None:
    """What only means something for examples with tokens."""
    hint = "put input_ids in 'columns'"
    if "labels" in spec.columns:
        message = "labels are the targets of input_ids, and 'columns' has none"
        table.report.add("conflict", table.at("columns"), message, hint, key=True)
    if spec.mask != "none":
        table.report.add("conflict", table.at("mask"), "a mask is of tokens, and 'columns' has none", hint, key=True)
    if table.has("overlong"):
        message = "a record is too long by its tokens, and 'columns' has none"
        table.report.add("conflict", table.at("overlong"), message, hint, key=True)


def _check_pad(table: Table, spec: ExamplesSpec) -> None:
    """Static lengths against the columns and the length that there are."""
    pad, columns = table.table("pad"), spec.columns or TOKENS
    if table.values.get("pack", "concat") in ("concat", "fit"):
        hint = 'pack = "none" makes one example of one record; packed columns have the length of input_ids'
        table.report.add("conflict", table.at("pad"), 'only pack = "none" has it', hint, key=True)
        return
    length_is_right = table.values.get("length") == spec.length
    for name in pad.values:
        if name not in columns and (spec.columns or not table.has("columns")):
            hint = did_you_mean(name, columns) or f"columns here: {', '.join(columns)}"
            pad.report.add("missing-column", pad.at(name), "'columns' has no such column", hint, key=True)
        elif name in TOKENS and length_is_right and spec.pad.get(name, spec.length) != spec.length:
            message = f"{spec.pad[name]} is not the length of an example, {spec.length}"
            pad.report.add("conflict", pad.at(name), message, f"leave it out: {name} has 'length' tokens")


def _shuffle(table: Table) -> str | BlockShuffle | EraShuffle:
    value: object = table.values.get("shuffle", "full")
    if not isinstance(value, Mapping):
        if isinstance(value, str):
            return table.text("shuffle", "full", ("full", "none"))
        table.wrong_type("shuffle", "text or a table", _SHUFFLES)
        return "full"
    shuffle = table.table("shuffle")
    shuffle.only(("block", "window", "era"))
    if shuffle.has("era"):
        other = next((key for key in ("block", "window") if shuffle.has(key)), None)
        if other is not None:
            message, hint = f"'{other}' and 'era' exclude each other", f"one of {_SHUFFLES}"
            shuffle.report.add("conflict", shuffle.at(other), message, hint, key=True)
        return EraShuffle(era=shuffle.integer("era", 1, 1, _MOST_SHUFFLED))
    if all(shuffle.lacks(key) for key in ("era", "block", "window")):
        shuffle.report.add("missing-key", shuffle.path, "'block' and 'window', or 'era', are missing", _SHUFFLES)
        return "full"
    if shuffle.lacks("era"):
        shuffle.need("block", "block = 1024: examples of a block")
        shuffle.need("window", "window = 64: blocks whose examples are shuffled together")
    return BlockShuffle(
        block=shuffle.integer("block", 1, 1, _MOST_BLOCK), window=shuffle.integer("window", 1, 1, _MOST_BLOCK)
    )
