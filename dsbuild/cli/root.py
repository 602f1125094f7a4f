"""``dsbuild root``."""

from __future__ import annotations

import click

from dsbuild.cli.output import json_option, print_json, print_table, say, store_option


@click.group("root")
def command() -> None:
    """Name hashes that gc must keep. 'build' makes a root a recipe, with a generation whenever its hash changes."""


@command.command("add")
@click.argument("name")
@click.argument("digest")
@store_option
def add(name: str, digest: str, store: str | None) -> None:
    """Keep DIGEST (or a unique prefix) and all it needs under NAME."""
    from dsbuild.cli.stores import open_store

    opened = open_store(None, store)
    found = opened.resolve(digest)
    generation = opened.roots.add(name, found)
    say(f"{name}: generation {generation} is {found.hex}")


@command.command("list")
@store_option
@json_option
def list_roots(store: str | None, as_json: bool) -> None:
    """List roots and their generations."""
    from dsbuild.cli.stores import open_store

    rows = open_store(None, store, readonly=True).roots.list()
    if as_json:
        print_json(
            [{"name": r.name, "generation": r.generation, "digest": r.digest.hex, "current": r.current} for r in rows]
        )
    else:
        print_table(
            [(r.name, r.generation, r.digest.hex, "current" if r.current else "") for r in rows],
            ("name", "generation", "hash", ""),
        )


@command.command("remove")
@click.argument("name")
@store_option
def remove(name: str, store: str | None) -> None:
    """Forget NAME and all its generations; gc may then free what only they kept."""
    from dsbuild.cli.stores import open_store

    open_store(None, store).roots.remove(name)
    say(f"{name}: removed")


@command.command("rollback")
@click.argument("name")
@store_option
def rollback(name: str, store: str | None) -> None:
    """Make the generation before the current one current again."""
    from dsbuild.cli.stores import open_store

    roots = open_store(None, store).roots
    roots.rollback(name)
    current = next(r for r in roots.list() if r.name == name and r.current)
    say(f"{name}: generation {current.generation} is {current.digest.hex}")
