"""``dsbuild trace``."""

from __future__ import annotations

from typing import Any

import click

from dsbuild.cli.output import json_option, print_json, print_table, say, store_option


@click.command("trace")
@click.argument("target")
@store_option
@click.option("--split", default="train", show_default=True, help="The mixture.")
@click.option("--step", required=True, type=click.IntRange(0), help="The step.")
@click.option("--size", default=1, show_default=True, type=click.IntRange(1), help="Examples a step, of all ranks.")
@click.option("--rank", default=0, show_default=True, type=click.IntRange(0), help="Whose rows of the step.")
@click.option("--world", default=1, show_default=True, type=click.IntRange(1), help="The number of ranks.")
@click.option("--uneven", is_flag=True, help="Allow a world that does not divide the size.")
@json_option
def command(
    target: str,
    store: str | None,
    split: str,
    step: int,
    size: int,
    rank: int,
    world: int,
    uneven: bool,
    as_json: bool,
) -> None:
    """Show what the examples of a step were made of: source, file, record and tokens of each.

    TARGET is a hash, a unique prefix of one, or a recipe. One line a piece: a run of tokens of one record. Spans are
    START:STOP, from 0, STOP excluded: "tokens" in the record, "at" in the example, whose last token of length + 1 is
    a target only. Records count from 0 in their file; 17[1] is the second row that handlers made of record 17.
    """
    from dsbuild.cli.names import known_names
    from dsbuild.load import open_dataset
    from dsbuild.load.trace import trace

    dataset = open_dataset(target, split=split, store=store)
    names = known_names(dataset.store, dataset.digest, target)
    found = trace(dataset, step, size, rank, world, uneven=uneven, names=names)
    if as_json:
        head = {"hash": dataset.digest.hex, "split": split, "step": step, "size": size, "rank": rank, "world": world}
        print_json(head | {"examples": [_example(t) for t in found]})
        return
    whose = f", rank {rank} of {world}" if world > 1 else ""
    say(f"{dataset.digest.short} {split}, step {step} of {dataset.steps(size)}{whose}: {len(found)} examples")
    print_table(
        [
            (
                t.position,
                t.name or t.source.short,
                t.epoch,
                t.example,
                f"{p.row_start}:{p.row_stop}",
                f"{p.start}:{p.stop}",
                record_text(p.record, p.child),
                p.file.name or p.file.id,
            )
            for t in found
            for p in t.pieces
        ],
        ("position", "source", "epoch", "example", "at", "tokens", "record", "file"),
    )


def record_text(record: int, child: int) -> str:
    """A record, and which of its rows where it is not the first."""
    return f"{record}[{child}]" if child else str(record)


def file_json(file: Any) -> dict[str, Any]:
    """A ``File`` as plain values."""
    return {"id": file.id, "ordinal": file.ordinal, "name": file.name}


def _example(traced: Any) -> dict[str, Any]:
    return {
        "position": traced.position,
        "source": traced.source.hex,
        "name": traced.name,
        "epoch": traced.epoch,
        "example": traced.example,
        "pieces": [
            {
                "file": file_json(p.file),
                "record": p.record,
                "child": p.child,
                "tokens": [p.start, p.stop],
                "at": [p.row_start, p.row_stop],
            }
            for p in traced.pieces
        ],
    }
