"""``dsbuild check``."""

from __future__ import annotations

from pathlib import Path

import click

from dsbuild.cli.output import json_option, print_json, recipe_argument, say, store_option


@click.command("check")
@recipe_argument
@store_option
@json_option
def command(recipe: Path, store: str | None, as_json: bool) -> None:
    """Find all mistakes of RECIPE before any record is read: keys, names, types, columns, files, tokenizer, Python.

    Writes nothing: without a lock the one that a build would make is checked in memory.
    """
    from dsbuild.build import prepare
    from dsbuild.cli.stores import known_store

    session = prepare(recipe, store=known_store(recipe.parent, store), write=False)
    if as_json:
        print_json({"hash": session.instance.graph.output.hex, "errors": []})
    else:
        say(f"{recipe}: no mistakes found; hash {session.instance.graph.output.hex}")
