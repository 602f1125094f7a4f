"""``dsbuild find``."""

from __future__ import annotations

import click

from dsbuild.cli.output import json_option, print_json, print_table, say, store_option


@click.command("find")
@click.argument("target")
@store_option
@click.option("--split", default="train", show_default=True, help="The mixture.")
@click.option("--source", required=True, metavar="NAME", help="The source: its name, or how its digest begins.")
@click.option("--record", required=True, type=int, help="The record's number in its file, from 0.")
@click.option(
    "--file", metavar="FILE", help="The file: its name, content id or number; not needed where the source has one file."
)
@click.option("--size", type=click.IntRange(1), help="Examples a step: shows steps and rows.")
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1), help="The most places to list.")
@json_option
def command(
    target: str,
    store: str | None,
    split: str,
    source: str,
    record: int,
    file: str | None,
    size: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show where in the stream a record is seen: every position (and step, given --size) that has tokens of it.

    TARGET is a hash, a unique prefix of one, or a recipe. One line a place; spans are as 'dsbuild trace' shows them. A
    record that no example has is an error that says why: filtered, skipped, dropped, in another split, or not reached.
    """
    from dsbuild.cli.names import known_names
    from dsbuild.cli.trace import file_json, record_text
    from dsbuild.load import open_dataset
    from dsbuild.load.find import find
    from dsbuild.load.provenance import known
    from dsbuild.load.sought import sought

    dataset = open_dataset(target, split=split, store=store)
    names = known_names(dataset.store, dataset.digest, target)
    number, _, chosen = sought(dataset, source, file, known(dataset.store, dataset.digest, names))
    view = dataset.sources[number].digest
    found = find(dataset, view.hex, record, chosen.ordinal, size=size, limit=limit + 1, names=names)
    more, found = len(found) > limit, found[:limit]
    if as_json:
        places = [
            {
                "position": f.position,
                "epoch": f.epoch,
                "step": f.step,
                "row": f.row,
                "example": f.example,
                "child": f.child,
                "tokens": [f.start, f.stop],
                "at": [f.row_start, f.row_stop],
            }
            for f in found
        ]
        head = {"hash": dataset.digest.hex, "split": split, "source": view.hex, "name": names.source(view)}
        print_json(head | {"file": file_json(chosen), "record": record, "size": size, "places": places, "more": more})
        return
    say(
        f"{dataset.digest.short} {split}: record {record} of {chosen.name or chosen.id}: "
        f"{len(found)} place{'' if len(found) == 1 else 's'}{' and more (--limit)' if more else ''}"
    )
    print_table(
        [
            (
                f.position,
                *(() if size is None else ("-" if f.step is None else f.step, "-" if f.row is None else f.row)),
                f.epoch,
                f.example,
                f"{f.row_start}:{f.row_stop}",
                f"{f.start}:{f.stop}",
                record_text(record, f.child),
            )
            for f in found
        ],
        ("position", *(() if size is None else ("step", "row")), "epoch", "example", "at", "tokens", "record"),
    )
