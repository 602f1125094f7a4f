"""Parse: a recipe file becomes a ``Recipe``, or one error with all its mistakes. No data file is looked at."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from dsbuild.errors import RecipeError
from dsbuild.recipe.links import check_links
from dsbuild.recipe.mixture import mixture_spec
from dsbuild.recipe.nodes import ELSEWHERE, examples_spec, tokenizer_spec
from dsbuild.recipe.source import check_node_name, source_spec
from dsbuild.recipe.table import Report, Table, shown
from dsbuild.recipe.tree import read_tree
from dsbuild.recipe.types import Recipe

LANGUAGE = 1
"""The version of the recipe language that this release reads."""

TOP_KEYS = ("dsbuild", "name", "seed", "description", "now", "tokenizer", "source", "mixture", "examples")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def load_recipe(path: Path) -> Recipe:
    """The recipe at ``path``: TOML, or the same tree as JSON where the name ends in ``.json``.

    Raises ``RecipeError`` with all mistakes, each with its place, and ``NotFoundError`` where there is no such file.
    """
    recipe, mistakes = read_recipe(path)
    if mistakes is not None:
        raise mistakes
    return recipe


def read_recipe(path: Path) -> tuple[Recipe, RecipeError | None]:
    """As ``load_recipe``, but mistakes are returned beside what could be read, so that more can be looked for."""
    tree = read_tree(path)
    report = Report(path=path, places=tree.places)
    top = Table(report=report, path=(), values=tree.values)
    top.only(TOP_KEYS, ELSEWHERE)
    _check_language(top)
    top.need("name", 'name = "web-code-v1"')
    name = top.text("name", "unnamed")
    if not _NAME.fullmatch(name):
        hint = "letters, digits, '.', '_' and '-', at most 64, a letter or digit first"
        report.add("bad-name", ("name",), f"{shown(name)} can't name a recipe", hint)
    for key, example in (("source", "[source.NAME]"), ("mixture", "[mixture.train]"), ("examples", "[examples]")):
        if top.lacks(key) or (key != "examples" and top.values.get(key) == {}):
            report.add("missing-key", (), f"'{key}' is missing", f"a recipe has at least one {example}")
    sources = {n: source_spec(n, t) for n, t in _nodes(top, "source").items()}
    mixtures = {n: mixture_spec(n, t) for n, t in _nodes(top, "mixture").items()}
    examples = top.table("examples")
    if not top.has("examples"):
        examples = Table(report=report, path=("examples",), values={"length": 1})
    recipe = Recipe(
        path=path,
        name=name,
        seed=top.integer("seed", 0, 0, (1 << 63) - 1),
        description=top.maybe_text("description"),
        now=_now(top),
        tokenizer=tokenizer_spec(top.table("tokenizer", '[tokenizer] with file = "bytes"'))
        if top.has("tokenizer")
        else None,
        sources=sources,
        mixtures=mixtures,
        examples=examples_spec(examples),
        places=tree.places.values,
        key_places=tree.places.keys,
    )
    if sources:
        check_links(report, sources, mixtures, recipe.examples)
    try:
        report.raise_found()
    except RecipeError as mistakes:
        return recipe, mistakes
    return recipe, None


def _check_language(top: Table) -> None:
    top.need("dsbuild", f"a recipe begins with dsbuild = {LANGUAGE}, the version of its language")
    if not top.has("dsbuild"):
        return
    value = top.values["dsbuild"]
    if not isinstance(value, int) or isinstance(value, bool):
        top.wrong_type("dsbuild", "an integer", f"dsbuild = {LANGUAGE}")
    elif value != LANGUAGE:
        hint = f"this release reads version {LANGUAGE}" + ("; a newer dsbuild may read it" if value > LANGUAGE else "")
        top.report.add("bad-value", ("dsbuild",), f"version {shown(value)} of the language is not known", hint)


def _nodes(top: Table, key: str) -> dict[str, Table]:
    """The named tables of ``[source.…]`` or ``[mixture.…]``."""
    outer = top.table(key, f"[{key}.NAME]")
    found = {}
    for name in outer.values:
        check_node_name(outer, name, key)
        found[name] = outer.table(name, f"[{key}.NAME] with its keys below")
    return found


def _now(top: Table) -> str | None:
    value = top.values.get("now")
    if not top.has("now"):
        return None
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    hint = "a day, like 2026-11-21: what a template's strftime_now sees"
    if not isinstance(value, str):
        top.wrong_type("now", "a date", hint)
        return None
    try:
        return datetime.date.fromisoformat(value if _DATE.fullmatch(value) else "").isoformat()
    except ValueError:
        top.report.add("bad-value", ("now",), f"{shown(value)} is no date", hint)
        return None
