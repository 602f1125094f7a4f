"""``dsbuild list``."""

from __future__ import annotations

from typing import Any

import click

from dsbuild.cli.output import count, json_option, print_json, print_table, store_option


@click.command("list")
@store_option
@json_option
def command(store: str | None, as_json: bool) -> None:
    """List the recipes of the store (its current roots) and the records that they stand on."""
    from dsbuild.cli.describe import nodes_of
    from dsbuild.cli.stores import open_store

    opened = open_store(None, store, readonly=True)
    found: list[dict[str, Any]] = []
    for root in opened.roots.list():
        if root.current:
            nodes = nodes_of(opened, root.digest)
            stored = [n for n in nodes if n["kind"] == "records"]
            found.append(
                {
                    "name": root.name,
                    "hash": root.digest.hex,
                    "records": sum(n["records"] or 0 for n in stored),
                    "tokens": sum(n["tokens"] or 0 for n in stored),
                    "built": all(n["parts"] is not None for n in stored),
                    "nodes": nodes,
                }
            )
    if as_json:
        print_json(found)
    else:
        print_table(
            [
                (r["name"], r["hash"], count(r["records"]), count(r["tokens"]), "" if r["built"] else "parts missing")
                for r in found
            ],
            ("name", "hash", "records", "tokens", ""),
        )
