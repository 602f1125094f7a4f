"""``dsbuild hash``."""

from __future__ import annotations

from pathlib import Path

import click

from dsbuild.cli.output import json_option, print_json, recipe_argument, say, store_option, update_names, update_option


@click.command("hash")
@recipe_argument
@update_option
@click.option("--locked", is_flag=True, help="Refuse to create a lock.")
@store_option
@json_option
def command(recipe: Path, store: str | None, update: tuple[str, ...], locked: bool, as_json: bool) -> None:
    """Print RECIPE's hash: what a training config pins.

    With a lock, nothing but the recipe, the Python that it names and the lock is read. Without one, the lock is made.
    """
    from dsbuild.build import prepare
    from dsbuild.cli.stores import known_store

    session = prepare(
        recipe, store=known_store(recipe.parent, store), update=update_names(update), locked=locked, touch=False
    )
    for note in session.notes:
        say(note)
    graph = session.instance.graph
    if as_json:
        nodes = {graph.label(d): d.hex for d in graph.closure(graph.output) if graph.derivations[d].kind == "records"}
        print_json({"hash": graph.output.hex, "name": session.recipe.name, "records": nodes})
    else:
        click.echo(graph.output.hex)
