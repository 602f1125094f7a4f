"""``dsbuild show``."""

from __future__ import annotations

from typing import Any

import click

from dsbuild.cli.output import count, json_option, print_json, print_table, say, store_option


@click.command("show")
@click.argument("target")
@store_option
@click.option("--derivation", is_flag=True, help="Print exactly the bytes that are hashed.")
@json_option
def command(target: str, store: str | None, derivation: bool, as_json: bool) -> None:
    """Show what TARGET is: a hash (any node's), a unique prefix of one, or a recipe."""
    from dsbuild.cli.describe import nodes_of, skips_of
    from dsbuild.cli.stores import open_store
    from dsbuild.digest import Digest
    from dsbuild.errors import NotFoundError
    from dsbuild.graph import parse
    from dsbuild.load.dataset import resolve_target

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
    streams = _streams(opened, digest, top)
    if as_json:
        print_json({"hash": digest.hex, "kind": top.kind, "streams": streams, "nodes": nodes})
        return
    say(f"{digest.hex}: {top.kind}")
    for stream in streams:
        click.echo(f"{stream['split']}: {count(stream['examples'])} examples of {stream['length']} tokens")
        for s in stream["sources"]:
            click.echo(
                f"  {s['digest'][:12]}  weight {s['weight']}, {count(s['examples'])} examples, {s['epochs']} epochs"
            )
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


def _streams(store: Any, digest: Any, top: Any) -> list[dict[str, Any]]:
    """Each mixture of a dataset: its length, and what it takes of its sources. Empty where parts are missing."""
    from dsbuild.errors import NotFoundError
    from dsbuild.load import open_dataset

    found = []
    for split in sorted(top.inputs) if top.kind == "dataset" else ():
        try:
            dataset = open_dataset(digest.hex, split=split, store=store)
        except NotFoundError as error:
            say(f"{split}: {error}")
            continue
        taken = dataset.mixture.counts(len(dataset))
        found.append(
            {
                "split": split,
                "examples": len(dataset),
                "length": dataset.shape.length,
                "sources": [
                    {
                        "digest": s.digest.hex,
                        "weight": int(w),
                        "examples": s.length,
                        "epochs": f"{int(n) / s.length:.3f}",
                    }
                    for s, w, n in zip(dataset.sources, dataset.mixture.stages[0].weights, taken.tolist(), strict=True)
                ],
            }
        )
    return found
