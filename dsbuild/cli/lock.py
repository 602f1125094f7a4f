"""``dsbuild lock``."""

from __future__ import annotations

from pathlib import Path

import click

from dsbuild.cli.output import json_option, print_json, recipe_argument, say, store_option, update_names, update_option


@click.command("lock")
@recipe_argument
@update_option
@click.option(
    "--check", "check", is_flag=True, help="Only compare: exit 7 and a list if the world differs from the lock."
)
@store_option
@json_option
def command(recipe: Path, store: str | None, update: tuple[str, ...], check: bool, as_json: bool) -> None:
    """Write, check or update the lock beside RECIPE: which files, tokenizer and libraries its hash stands for."""
    from dsbuild.build import prepare, update_lock
    from dsbuild.cli.stores import known_store
    from dsbuild.recipe import lock_path

    if check and update:
        raise click.UsageError("--check and --update exclude each other")
    known, names = known_store(recipe.parent, store), update_names(update)
    if names and lock_path(recipe).exists():
        path, left = update_lock(recipe, names, known)
        for text in (f"updated {path}", *(f"not accepted: {text}" for text in left)):
            say(text)
        if as_json:
            print_json({"lock": str(path), "left": list(left)})
        return
    session = prepare(recipe, store=known, update=names, locked=check, write=not check)
    for note in session.notes:
        say(note)
    path = lock_path(session.recipe.path)
    if as_json:
        print_json({"lock": str(path), "hash": session.digest.hex, "notes": list(session.notes)})
    elif not session.notes:
        say(f"{path}: up to date")
