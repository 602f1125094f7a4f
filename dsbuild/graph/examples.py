"""Examples: the columns that ``[examples]`` wants of a source, and whether they can be served, before any data."""

from __future__ import annotations

from collections.abc import Mapping

from dsbuild.errors import Where
from dsbuild.graph.chain import Mistakes
from dsbuild.graph.flow import Columns
from dsbuild.recipe.types import TOKENS, MixtureSpec, Recipe
from dsbuild.schema import OBJECTS, Field

INPUT, LABELS = TOKENS


def wanted(recipe: Recipe, mixture: MixtureSpec, source: str, columns: Columns, mistakes: Mistakes) -> frozenset[str]:
    """The columns that ``mixture`` wants of ``source``, which gives ``columns``; what can't be goes to ``mistakes``.

    Columns whose type is not known yet pass: the build sees what they hold.
    """
    spec = recipe.examples
    found = set(spec.columns)
    if spec.has_tokens:
        found.add(INPUT)
    if spec.mask == "prefix" or (not spec.columns and _is_tokens(columns.typed.get(LABELS))):
        found.add(LABELS)
    where = recipe.where(*mixture.place(source))
    for name in TOKENS:
        if name in found and not _is_tokens(columns.typed.get(name)):
            message = f"mixture.{mixture.name}: source.{source} gives no column '{name}' of numbers"
            mistakes.add(message, "missing-column", where, _way_to(name, spec.mask))
    for number, name in enumerate(spec.columns):
        if name not in TOKENS:
            _check_further(recipe, source, name, columns, mistakes, recipe.where("examples", "columns", number))
    return frozenset(found)


def check_alike(recipe: Recipe, mixture: MixtureSpec, columns: Mapping[str, Columns], mistakes: Mistakes) -> None:
    """Remember further columns that two sources of ``mixture`` give in other types: no batch has room for both.

    ``columns``: what each source gives, by name.
    """
    for number, name in enumerate(recipe.examples.columns):
        if name in TOKENS:
            continue
        first: tuple[str, Field] | None = None
        for source in mixture.sources:
            field = columns[source].typed.get(name)
            if field is None:
                continue
            if first is None:
                first = source, field
            elif field != first[1]:
                message = f"examples.columns: '{name}' is {_told(field)} in source.{source}"
                other = f"{_told(first[1])} in source.{first[0]}, and '{mixture.name}' mixes them"
                where = recipe.where("examples", "columns", number)
                mistakes.add(f"{message} and {other}", "conflict", where, "handlers must make them alike")
                break


def _check_further(recipe: Recipe, source: str, name: str, columns: Columns, mistakes: Mistakes, where: Where) -> None:
    spec, field = recipe.examples, columns.typed.get(name)
    if not columns.may_have(name):
        here = ", ".join(sorted({*columns.typed, *columns.untyped})) or "none"
        message = f"examples.columns: source.{source} gives no column '{name}'"
        mistakes.add(message, "missing-column", where, f"columns there: {here}")
    elif field is None:
        return
    elif field.dtype in OBJECTS:
        message = f"examples.columns: '{name}' of source.{source} is {field.dtype}, and batches are of numbers"
        mistakes.add(message, "bad-type", where, "a handler must make numbers of it, or leave it out")
    elif spec.pack != "none" and not field.ragged:
        message = f"examples.columns: '{name}' of source.{source} is {_told(field)}, not a value for each token"
        mistakes.add(message, "conflict", where, 'pack = "none" makes one example of one record')
    elif field.ragged and spec.pack == "none" and name not in spec.pad:
        message = f"examples.columns: '{name}' of source.{source} differs in length from record to record"
        hint = f"give its static length: [examples] pad = {{ {name} = 1000 }}"
        mistakes.add(message, "missing-key", where, hint)
    elif name in spec.pad and not field.ragged:
        message = f"examples.pad: '{name}' of source.{source} is {_told(field)} in every record"
        mistakes.add(message, "conflict", recipe.where_key("examples", "pad", name), "leave it out of 'pad'")


def _is_tokens(field: Field | None) -> bool:
    return field is not None and field.shape == (None,) and field.dtype.removeprefix("u").startswith("int")


def _way_to(name: str, mask: str) -> str:
    if name == INPUT:
        return 'add { use = "tokenize" } to its handlers'
    if mask == "prefix":
        return 'a handler must make it: mask = "prefix" takes the tokens before the first label as the prefix'
    return "a handler must make it"


def _told(field: Field) -> str:
    """A field for people: "float32[80]", "uint8[any, 3]", "int64"."""
    shape = ", ".join("any" if n is None else str(n) for n in field.shape)
    return f"{field.dtype}[{shape}]" if shape else field.dtype
