"""``dsbuild peek``."""

from __future__ import annotations

from pathlib import Path
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
    from dsbuild.load import open_dataset
    from dsbuild.load.dataset import is_recipe, recipe_graph

    dataset = open_dataset(target, split=split, store=store)
    decode = decoder_of(dataset)
    labels = recipe_graph(dataset.store, Path(target)).labels if is_recipe(target) else {}
    batch = dataset.batch(step, size)
    sources, indices = dataset.locate(step * size, (step + 1) * size)
    rows: list[dict[str, Any]] = []
    for row in range(size):
        ids, source = batch["input_ids"][row], dataset.sources[int(sources[row])].digest
        used = int((batch["labels"][row] != -100).sum())
        kept = ids[: _length(batch, row)]
        rows.append(
            {
                "example": step * size + row,
                "source": labels.get(source, source.short),
                "index": int(indices[row]),
                "targets": used,
                "text": None if decode is None else decode(kept.tolist()),
                "input_ids": ids.tolist(),
            }
        )
    if as_json:
        print_json({"hash": dataset.digest.hex, "split": split, "step": step, "examples": rows})
        return
    for found in rows:
        click.echo(f"--- example {found['example']}: {found['source']}[{found['index']}], {found['targets']} targets")
        click.echo(found["text"] if found["text"] is not None else " ".join(map(str, found["input_ids"])))


def _length(batch: dict[str, Any], row: int) -> int:
    """Tokens of a row that are no padding, as far as it shows."""
    if "segment_ids" in batch:
        return int((batch["segment_ids"][row] != 0).sum())
    return int(batch["input_ids"].shape[1])
