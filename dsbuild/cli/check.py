"""``dsbuild check``."""

from __future__ import annotations

from pathlib import Path

import click

from dsbuild.cli.output import json_option, print_json, recipe_argument, say


@click.command("check")
@recipe_argument
@json_option
def command(recipe: Path, as_json: bool) -> None:
    """Find all mistakes of RECIPE before any record is read: keys, names, types, columns, files, tokenizer, Python.

    Writes nothing: without a lock the one that a build would make is checked in memory.
    """
    from dsbuild.build import prepare

    session = prepare(recipe, write=False)
    if as_json:
        print_json({"hash": session.instance.graph.output.hex, "errors": []})
    else:
        say(f"{recipe}: no mistakes found; hash {session.instance.graph.output.hex}")
