"""``dsbuild show``."""

from __future__ import annotations

import click

from dsbuild.cli.output import count, json_option, print_json, print_table, say, store_option


@click.command("show")
@click.argument("target")
@store_option
@click.option("--derivation", is_flag=True, help="Print exactly the bytes that are hashed.")
@click.option("--size", type=click.IntRange(1), help="Examples a step: shows the steps, and what fills none.")
@json_option
def command(target: str, store: str | None, derivation: bool, size: int | None, as_json: bool) -> None:
    """Show what TARGET is: a hash (any node's), a unique prefix of one, or a recipe.

    Of each mixture its length and its sources: their weights (of each stage), the examples and tokens of an epoch, how
    often they are seen, and the positions before which their first epoch and their last example end.
    """
    from dsbuild.cli.describe import nodes_of, skips_of
    from dsbuild.cli.names import known_names
    from dsbuild.cli.stores import open_store
    from dsbuild.cli.streams import print_stream, streams
    from dsbuild.digest import Digest
    from dsbuild.errors import NotFoundError
    from dsbuild.graph import parse
    from dsbuild.load.opening import resolve_target

    opened = open_store(None, store, readonly=True)
    digest = resolve_target(opened, target)
    data = opened.derivation(digest)
    if data is None:
        raise NotFoundError(
            f"{target}: its hash {digest.hex} is not in the store at {opened.root}",
            kind="not-built",
            hint=f"'dsbuild build {target}' puts it there",
        )
    if derivation:
        click.echo(data, nl=False)
        return
    top = parse(data)
    nodes = nodes_of(opened, digest)
    for node in nodes:
        if node["kind"] == "records":
            node["skipped"], node["skipped_records"] = skips_of(opened, Digest.parse(node["digest"]))
    found = list(streams(opened, digest, top, known_names(opened, digest, target), size))
    if as_json:
        print_json({"hash": digest.hex, "kind": top.kind, "streams": found, "nodes": nodes})
        return
    say(f"{digest.hex}: {top.kind}")
    for stream in found:
        print_stream(stream)
        click.echo()
    print_table(
        [
            (
                n["digest"][:12],
                n["kind"],
                n["builder"],
                *("-" if n[k] is None else count(n[k]) for k in ("parts", "records", "tokens")),
            )
            for n in nodes
        ],
        ("digest", "kind", "builder", "parts", "records", "tokens"),
    )
