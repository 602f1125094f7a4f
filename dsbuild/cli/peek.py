"""``dsbuild peek``."""

from __future__ import annotations

from typing import Any

import click

from dsbuild.cli.output import json_option, print_json, store_option


@click.command("peek")
@click.argument("target")
@store_option
@click.option("--split", default="train", show_default=True, help="The mixture.")
@click.option("--step", default=0, show_default=True, type=click.IntRange(0), help="The step to show.")
@click.option("--size", default=4, show_default=True, type=click.IntRange(1), help="Examples a step.")
@json_option
def command(target: str, store: str | None, split: str, step: int, size: int, as_json: bool) -> None:
    """Show the examples of one step of TARGET (a hash, a unique prefix of one, or a recipe), decoded to text."""
    from dsbuild.cli.decode import decoder_of
    from dsbuild.cli.names import known_names
    from dsbuild.load import open_dataset

    dataset = open_dataset(target, split=split, store=store)
    decode = decoder_of(dataset)
    names = known_names(dataset.store, dataset.digest, target)
    batch = dataset.batch(step, size)
    stretch = dataset.stretch([(step * size, (step + 1) * size)], ())
    rows: list[dict[str, Any]] = []
    for row in range(size):
        source = dataset.sources[int(stretch.sources[row])].digest
        ids = batch["input_ids"][row].tolist() if "input_ids" in batch else []
        rows.append(
            {
                "example": step * size + row,
                "source": names.source(source) or source.short,
                "index": int(stretch.examples[row]),
                "targets": int((batch["labels"][row] != -100).sum()) if "labels" in batch else 0,
                "text": None if decode is None else decode(ids[: int(stretch.tokens[row])]),
                "input_ids": ids,
            }
        )
    if as_json:
        print_json({"hash": dataset.digest.hex, "split": split, "step": step, "examples": rows})
        return
    for found in rows:
        click.echo(f"--- example {found['example']}: {found['source']}[{found['index']}], {found['targets']} targets")
        click.echo(found["text"] if found["text"] is not None else " ".join(map(str, found["input_ids"])))
