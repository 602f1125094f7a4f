"""Examples: what a built dataset must be able to give, checked when the build ends and not first in the trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsbuild.build.plan import World
from dsbuild.digest import Digest
from dsbuild.errors import BuildError
from dsbuild.graph import Derivation, ViewSize, mixture_of
from dsbuild.order.view import concat_total, first_files
from dsbuild.schema import NUMBERS, Field
from dsbuild.store import Manifest, Store

TOKENS, LABELS = "input_ids", "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What a mixture sees of a source, with the manifests of what it is made of, and its ``name`` for people.

    ``label``: the name without the mixture's. ``readers``: ideal readers that its parts are dealt to, 0 = none.
    """

    name: str
    label: str
    store: Store
    records: Manifest
    selection: Manifest | None
    bins: Manifest | None
    readers: int

    @property
    def tokens(self) -> int:
        """Tokens of one epoch."""
        return int(_counts(self.sizes.elements, TOKENS, len(self.sizes)).sum())

    def examples(self, examples: Mapping[str, Any]) -> int:
        """Number of examples of one epoch."""
        if examples["pack"] != "concat":
            return self.sizes.total
        tokens = _counts(self.sizes.elements, TOKENS, len(self.sizes))
        files = first_files(self.records.part_segments, self.records.segment_file)
        return concat_total(tokens, files, self.readers, int(examples["length"]))

    @property
    def sizes(self) -> Manifest:
        """The manifest that counts what examples are made of."""
        return self.bins or self.selection or self.records

    def rows(self, part: int) -> np.ndarray | None:
        """int64[n]: the records of ``part`` that examples show, None = all."""
        chosen = self.bins or self.selection
        if chosen is None:
            return None
        stored = self.store.object(chosen.content(part))
        rows, _ = stored.column("row")
        stored.touch("row", 0, len(rows))
        return rows


def check_examples(world: World) -> Iterator[BuildError]:
    """An error for each view without an example, each column that examples can't show of it, and each mixture that is
    no stream."""
    top = world.graph.derivations[world.graph.output]
    if top.kind != "dataset" or not isinstance(top.inputs, Mapping):
        return
    for mixture in sorted(top.inputs):
        spec = world.derivation(Digest.parse(top.inputs[mixture]))
        views = [_view(world, mixture, digest) for digest in spec.references()]
        wrong = False
        for view in views:
            for error in (
                () if view is None else (*_check_count(view, top.arguments), *_check_columns(view, top.arguments))
            ):
                wrong = True
                yield error
        built = [view for view in views if view is not None]
        if not wrong and len(built) == len(views):
            yield from _check_stream(spec, mixture, built, top.arguments)


def _check_stream(
    spec: Derivation, mixture: str, views: Sequence[_View], examples: Mapping[str, Any]
) -> Iterator[BuildError]:
    """What makes no stream of views that are each well, found by making it."""
    try:
        mixture_of(
            spec, mixture, [ViewSize(label=v.label, examples=v.examples(examples), tokens=v.tokens) for v in views]
        )
    except BuildError as error:
        yield error


def _view(world: World, mixture: str, digest: Digest) -> _View | None:
    """None where a node is not built; that has been told already."""
    readers, found = 0, {}
    at = digest
    while True:
        derivation = world.derivation(at)
        if derivation.kind == "order":
            readers = int(derivation.arguments["readers"])
        else:
            manifest = world.store.manifest(at)
            if manifest is None:
                return None
            found[derivation.kind] = manifest
            if derivation.kind == "records":
                break
        (at,) = derivation.references()
    return _View(
        name=f"mixture.{mixture}: {world.graph.label(digest)}",
        label=world.graph.label(digest),
        store=world.store,
        records=found["records"],
        selection=found.get("split"),
        bins=found.get("pack"),
        readers=readers,
    )


def _check_count(view: _View, examples: Mapping[str, Any]) -> Iterator[BuildError]:
    if view.examples(examples) == 0:
        yield BuildError(
            f"{view.name} gives no example ({(view.selection or view.records).total} records)",
            kind="empty",
            hint="look at its files and filters, or leave it out of the mixture's weights",
        )


def _check_columns(view: _View, examples: Mapping[str, Any]) -> Iterator[BuildError]:
    columns = set(examples.get("columns", ()))
    if examples["pack"] != "none" or not columns or columns & {TOKENS, LABELS}:
        own = LABELS in view.records.schema and (not columns or LABELS in columns)
        columns -= {LABELS}  # without a column of their own they are the tokens
        columns |= {TOKENS, LABELS} if own or examples.get("mask") == "prefix" else {TOKENS}
    for name in sorted(columns):
        error = _check_column(view, examples, name)
        if error is not None:
            yield error


def _check_column(view: _View, examples: Mapping[str, Any], name: str) -> BuildError | None:
    if name not in view.records.schema:
        why = ', which mask = "prefix" needs to find the prefix' if name == LABELS else ""
        hint = "a handler of its source must make it" if name != TOKENS else 'add { use = "tokenize" } to its handlers'
        return BuildError(f"{view.name} has no column '{name}'{why}", kind="missing-column", hint=hint)
    field = view.records.schema[name]
    if field.dtype not in NUMBERS:
        return BuildError(
            f"{view.name}, column '{name}' is {field.dtype}: examples have numbers only",
            kind="bad-type",
            hint="leave it out of [examples] columns, or let a handler make numbers of it",
        )
    if name in (TOKENS, LABELS) or examples["pack"] != "none":
        return _check_aligned(view, field) or _check_length(view, examples, name)
    if field.ragged and name not in examples.get("shapes", {}):
        most = int(_counts(view.records.longest, name, len(view.records)).max(initial=0))
        return BuildError(
            f"{view.name}, column '{name}' differs in length from record to record (at most {most})",
            kind="bad-type",
            hint=f"give it a length: [examples] pad = {{ {name} = {max(most, 1)} }}",
        )
    return _check_shape(view, examples, name) if field.ragged else None


def _check_aligned(view: _View, field: Field) -> BuildError | None:
    """Columns that are cut where the tokens are have a value a token."""
    if not field.ragged:
        return BuildError(
            f"{view.name}, column '{field.name}' has shape {list(field.shape)}: it needs one value for each token",
            kind="bad-type",
            hint='leave it out of [examples] columns, or use pack = "none"',
        )
    tokens, values = (_counts(view.records.elements, name, len(view.records)) for name in (TOKENS, field.name))
    wrong = np.flatnonzero(tokens != values)
    if not len(wrong):
        return None
    part = int(wrong[0])
    seen = f"{int(values[part])} values for {int(tokens[part])} tokens"
    return BuildError(
        f"{view.name}, part {part}: column '{field.name}' has {seen}",
        kind="bad-value",
        hint='make one value a token, or leave the column out of [examples] columns, or use pack = "none"',
    )


def _check_length(view: _View, examples: Mapping[str, Any], name: str) -> BuildError | None:
    """Whole records fit into examples; a ``pack`` node has seen to that itself."""
    if name != TOKENS or examples["pack"] != "none" or view.bins is not None:
        return None
    hint = 'raise [examples] length, or set overlong = "cut" or "drop", or keep shorter records only'
    return _too_long(view, examples, name, int(examples["length"]) + 1, "length + 1", hint)


def _check_shape(view: _View, examples: Mapping[str, Any], name: str) -> BuildError | None:
    hint = f"raise [examples] pad.{name}, or keep shorter records only"
    return _too_long(view, examples, name, int(examples["shapes"][name]), f"pad.{name}", hint)


def _too_long(
    view: _View, examples: Mapping[str, Any], name: str, most: int, limit: str, hint: str
) -> BuildError | None:
    """The error for the part with the longest record shown that is above ``most`` values of column ``name``."""
    overlong = examples.get("overlong", "error")
    if overlong == "cut" or (overlong == "drop" and name == TOKENS):  # "drop" looks at tokens alone
        return None
    longest = _counts(view.records.longest, name, len(view.records)).copy()
    for part in np.flatnonzero(longest > most).tolist():  # of all records: those that examples show may be shorter
        longest[part] = _longest(view, part, name)
    part = int(np.argmax(longest)) if len(longest) else 0
    if not len(longest) or int(longest[part]) <= most:
        return None
    what = "tokens" if name == TOKENS else f"values in column '{name}'"
    return BuildError(
        f"{view.name}, part {part} has a record of {int(longest[part])} {what}, above {limit} = {most}",
        kind="record-too-long",
        hint=hint,
    )


def _longest(view: _View, part: int, name: str) -> int:
    rows = view.rows(part)
    if rows is None:
        return int(view.records.longest[name][part])
    _, offsets = view.store.object(view.records.content(part)).column(name)
    assert offsets is not None
    return int((offsets[rows + 1] - offsets[rows]).max(initial=0))


def _counts(group: Mapping[str, np.ndarray], name: str, parts: int) -> np.ndarray:
    return group[name] if name in group else np.zeros(parts, np.int64)
