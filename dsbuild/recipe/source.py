"""Source tables: ``[source.NAME]`` with its files or inputs, handlers and splits, checked key by key."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from dsbuild.recipe.suggest import did_you_mean
from dsbuild.recipe.table import Table, shown, told
from dsbuild.recipe.types import HandlerSpec, KeyPath, SourceSpec

SOURCE_KEYS = (
    "files",
    "from",
    "handlers",
    "split",
    "order",
    "format",
    "read",
    "on_error",
    "part_bytes",
    "shared",
)
FILE_KEYS = ("format", "read", "on_error", "part_bytes")
"""Keys that only mean something where files are read."""

NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
NODE_HINT = "letters, digits, '_' and '-', at most 64, no '-' first"
REMOTE = ("http://", "https://", "s3://", "gs://", "hf://")
REMOTE_REASON = "remote sources come with the building-at-scale release; copy the files here and name them by path"

SHARE_HINT = "a share is a decimal between 0 and 1"

_NODE = re.compile(r"drv:[0-9a-f]{64}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST_PART = 1 << 40
_MOST_READERS = 1 << 20
_MOST_RECORDS = 1 << 60


def source_spec(name: str, table: Table) -> SourceSpec:
    """The source of a table; its mistakes are in the table's report."""
    elsewhere = dict.fromkeys(("weights", "until", "by", "max_epochs", "stages"), "[mixture.NAME]")
    table.only(SOURCE_KEYS, {**elsewhere, "use": "handlers = [{ … }]"})
    if table.has("files") and table.has("from"):
        hint = "a source reads files or follows other sources; make two sources"
        table.report.add("conflict", table.path, "'files' and 'from' exclude each other", hint, key=True)
    elif table.lacks("files") and table.lacks("from"):
        table.report.add("missing-key", table.path, "'files' or 'from' is missing", key=True)
    if table.has("from") and not table.has("files"):
        for key in FILE_KEYS:
            if table.has(key):
                hint = "it belongs to the source that reads the files"
                table.report.add("conflict", table.at(key), "this source reads no files", hint, key=True)
    return SourceSpec(
        name=name,
        files=_files(table),
        inputs=_inputs(table),
        handlers=_handlers(table),
        split=_split(table),
        interleave=_interleave(table),
        format=table.maybe_text("format"),
        read=_exact_table(table, "read"),
        on_error=table.text("on_error", "error", ("error", "skip")),
        part_bytes=table.integer("part_bytes", 64 << 20, 4096, _LARGEST_PART),
        shared=table.boolean("shared", False),
    )


def _exact_table(table: Table, key: str) -> dict[str, Any]:
    """The table at ``key`` with exact values."""
    inner = table.table(key)
    return {name: inner.exact(name) for name in inner.values}


def check_file_name(table: Table, path: KeyPath, name: str) -> bool:
    """Report a file name or pattern that this release can't serve; True if it can."""
    scheme = _SCHEME.match(name)
    if name.startswith(REMOTE):
        table.report.add("not-yet", path, f"{shown(name)} is not served yet: {REMOTE_REASON}")
    elif scheme:
        hint = "write a plain path" if scheme.group().lower() == "file://" else f"known: {', '.join(REMOTE)}, or a path"
        table.report.add("bad-value", path, f"{shown(name)} is no path", hint)
    elif name.startswith("~"):
        hint = "write the path from the recipe's directory, or from /"
        table.report.add("bad-value", path, f"{shown(name)}: '~' is another place for each user", hint)
    elif _CONTROL.search(name):
        table.report.add("bad-value", path, f"{shown(name)} has a control character")
    else:
        return True
    return False


def check_node_name(table: Table, name: str, kind: str) -> None:
    """Report a name that no node or split may have."""
    if not NODE_NAME.fullmatch(name):
        table.report.add("bad-name", table.at(name), f"{shown(name)} can't name a {kind}", NODE_HINT, key=True)


def _files(table: Table) -> tuple[str, ...]:
    if table.has("files") and table.values["files"] in ([], ""):
        table.report.add("bad-value", table.at("files"), "no file is named", 'files = "data/*.jsonl"')
        return ()
    return tuple(name for path, name in table.texts("files", one=True) if check_file_name(table, path, name))


def _inputs(table: Table) -> tuple[str, ...]:
    if table.has("from") and table.values["from"] in ([], ""):
        table.report.add("bad-value", table.at("from"), "no source is named", 'from = "other"')
        return ()
    found = []
    for path, name in table.texts("from", one=True):
        if name.startswith("b3:") or (":" in name and not _NODE.fullmatch(name)):
            hint = "'drv:' and the 64 digits of a node's hash ('dsbuild show' prints them); files go in 'files'"
            table.report.add("bad-value", path, f"{shown(name)} names no node", hint)
        else:
            found.append(name)
    return tuple(found)


def _interleave(table: Table) -> int:
    value = table.values.get("order", "files")
    hint = 'order = "files" or order = { interleave = 64 }'
    if isinstance(value, dict):
        order = table.table("order")
        order.only(("interleave",))
        order.need("interleave", hint)
        return order.integer("interleave", 1, 1, _MOST_READERS)
    if not isinstance(value, str):
        table.wrong_type("order", '"files" or a table', hint)
    elif value != "files":
        table.report.add("bad-value", table.at("order"), f"{shown(value)} is not known", hint)
    return 0


def _split(table: Table) -> dict[str, Fraction | int]:
    split = table.table("split", "split = { train = 0.99, valid = 0.01 }, or counts of records: { valid = 1000 }")
    counted = any(isinstance(value, int) and not isinstance(value, bool) for value in split.values.values())
    found: dict[str, Fraction | int] = {}
    right: list[Fraction] = []
    for name, value in split.values.items():
        check_node_name(split, name, "split")
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = _count(split, name, value)
            continue
        found[name] = Fraction(1, 2)
        share = split.ratio(name)
        if share is not None and not (0 < share < 1 or (share == 1 and counted)):
            hint = "leave 'split' out to use the whole source" if share == 1 else SHARE_HINT
            split.report.add("bad-value", split.at(name), f"{shown(value)} is no share", hint)
        elif share is not None:
            found[name] = share
            right.append(share)
    if len(right) == sum(isinstance(share, Fraction) for share in found.values()) and sum(right) > 1:
        total = sum(right, Fraction(0))
        over = f"the shares sum to {total.numerator}/{total.denominator}, above 1"
        table.report.add(
            "bad-value", table.at("split"), over, "records that no share takes belong to no split", key=True
        )
    if table.has("split") and not split.values and isinstance(table.values["split"], dict):
        table.report.add(
            "bad-value", table.at("split"), "no split is named", "leave 'split' out to have none", key=True
        )
    return found


def _count(split: Table, name: str, count: int) -> int:
    """The records that a split by count has; 1 where the recipe's number is none."""
    if 1 <= count <= _MOST_RECORDS:
        return count
    hint = f"an integer is a count of records, of 1 to {_MOST_RECORDS}; {SHARE_HINT}"
    split.report.add("bad-value", split.at(name), f"{shown(count)} is no count of records", hint)
    return 1


def _handlers(table: Table) -> tuple[HandlerSpec, ...]:
    value = table.values.get("handlers", [])
    hint = 'handlers = [{ use = "tokenize" }]'
    if not isinstance(value, list):
        table.wrong_type("handlers", "a list of tables", hint)
        return ()
    found = []
    for number, item in enumerate(value):
        path: KeyPath = (*table.at("handlers"), number)
        if isinstance(item, dict):
            found.append(_handler(Table(report=table.report, path=path, values=item)))
        else:
            said = f'{{ use = "{item}" }}' if isinstance(item, str) and NODE_NAME.fullmatch(item) else hint
            table.report.add("bad-type", path, f"a table is wanted here, not {told(item)}", f"write {said}")
    return tuple(found)


def _handler(table: Table) -> HandlerSpec:
    if not table.has("use"):
        near = did_you_mean("use", [k for k in table.values if len(k) < 6])
        table.report.add(
            "missing-key", table.path, "'use' is missing", near and f'write use = "…" instead of {near[13:-1]}'
        )
    use = table.text("use", "-")
    spec = HandlerSpec(use=use, arguments={})
    if table.has("use"):
        _check_use(table, use)
    is_python = ".py" in use
    own = ("use", "requires", "reads") if is_python else ("use",)
    for key in ("requires", "reads"):
        if not is_python and table.has(key):
            hint = 'user Python is named by file and function: use = "clean.py:clean"'
            table.report.add("conflict", table.at(key), f"only user Python has '{key}'", hint, key=True)
    arguments = {key: table.exact(key) for key in table.values if key not in own}
    if not is_python:
        return HandlerSpec(use=spec.use, arguments=arguments)
    reads = [name for path, name in table.texts("reads", one=True) if check_file_name(table, path, name)]
    requires = [name for _, name in table.texts("requires", one=True)]
    return HandlerSpec(use=use, arguments=arguments, requires=tuple(requires), reads=tuple(reads))


def _check_use(table: Table, use: str) -> None:
    file, colon, function = use.rpartition(":")
    if not use or _CONTROL.search(use):
        table.report.add("bad-value", table.at("use"), f"{shown(use)} names no handler")
    elif use.endswith(".py"):
        table.report.add(
            "bad-value", table.at("use"), f"{shown(use)} names no function", f'write use = "{use}:FUNCTION"'
        )
    elif colon and file.endswith(".py") and not function.isidentifier():
        table.report.add("bad-value", table.at("use"), f"{shown(function)} can't name a function", "file.py:function")
