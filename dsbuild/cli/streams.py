"""Streams: each mixture of a dataset as plain values: its length, what it takes of its sources, where they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from dsbuild.cli.output import count, print_table, say
from dsbuild.digest import Digest
from dsbuild.errors import NotFoundError
from dsbuild.graph import Derivation
from dsbuild.load import Dataset, open_dataset
from dsbuild.load.opening import derivation_of
from dsbuild.load.source import Source
from dsbuild.store import Store
from dsbuild.store.names import Names


def streams(store: Store, digest: Digest, top: Derivation, names: Names, size: int | None) -> Iterator[dict[str, Any]]:
    """Each mixture of a dataset; those with parts missing are told of and left out. ``size``: examples a step."""
    if top.kind != "dataset" or not isinstance(top.inputs, Mapping):
        return
    for split in sorted(top.inputs):
        try:
            dataset = open_dataset(digest.hex, split=split, store=store)
        except NotFoundError as error:
            say(f"{split}: {error}")
            continue
        yield _stream(dataset, top, derivation_of(store, Digest.parse(top.inputs[split])), names, size)


def _stream(dataset: Dataset, top: Derivation, mixture: Derivation, names: Names, size: int | None) -> dict[str, Any]:
    a = mixture.arguments
    stages = a.get("stages") or [{"from": 0, "weights": a["weights"]}]
    taken = dataset.mixture.counts(len(dataset)).tolist()
    found: dict[str, Any] = {
        "split": dataset.split,
        "examples": len(dataset),
        "length": dataset.shape.length,
        "pack": dataset.shape.pack,
        "shuffle": top.arguments["shuffle"],
        "until": _until(a.get("until", "all")),
        "by": a.get("by", "records"),
        "stages": [int(stage["from"]) for stage in stages],
    }
    if size is not None:
        steps = dataset.steps(size)
        found |= {"size": size, "steps": steps, "dropped": len(dataset) - steps * size}
    found["sources"] = [
        _source(dataset, number, names, [int(stage["weights"][number]) for stage in stages], taken[number])
        for number in range(len(dataset.sources))
    ]
    return found


def _source(dataset: Dataset, number: int, names: Names, weights: Sequence[int], taken: int) -> dict[str, Any]:
    view = dataset.sources[number]
    first = dataset.mixture.position(number, view.length - 1) + 1 if taken >= view.length else None
    return {
        "digest": view.digest.hex,
        "name": names.source(view.digest),
        "weight": int(dataset.mixture.stages[0].weights[number]),
        "weights": list(weights),
        "examples": view.length,
        "tokens": view.tokens,
        "epochs": f"{taken / view.length:.3f}",
        "taken": taken,
        "first_epoch_ends": first,
        "ends": dataset.mixture.position(number, taken - 1) + 1 if taken else None,
        "padding": _padding(view),
    }


def _padding(view: Source) -> str | None:
    """The share of its bins of L + 1 tokens that a packing leaves empty; None where nothing is packed in bins."""
    if view.packing is None or not view.length:
        return None
    return f"{1 - view.tokens / (view.length * (view.shape.length + 1)):.6f}"


def _until(value: Any) -> str:
    return value if isinstance(value, str) else f"{float(value):g} epoch{'' if value == 1 else 's'}"


def print_stream(stream: Mapping[str, Any]) -> None:
    """A stream for people: a line on it, and a table of its sources."""
    shuffle = stream["shuffle"]
    shown = shuffle if isinstance(shuffle, str) else " ".join(f"{k} {v}" for k, v in shuffle.items())
    click.echo(
        f"{stream['split']}: {count(stream['examples'])} examples of {stream['length']} tokens, pack {stream['pack']}, "
        f"shuffle {shown}, until {stream['until']}"
    )
    if "size" in stream:
        dropped = stream["dropped"]
        last = f"; the last {count(dropped)} example{'' if dropped == 1 else 's'} fill no step" if dropped else ""
        click.echo(
            f"{count(stream['steps'])} step{'' if stream['steps'] == 1 else 's'} of {count(stream['size'])}{last}"
        )
    by = " (tokens)" if stream["by"] == "tokens" else ""
    stages = stream["stages"]
    heads = [f"weight{by}"] if len(stages) == 1 else [f"from {count(first)}{by}" for first in stages]
    padded = any(s["padding"] is not None for s in stream["sources"])
    rows = [
        (
            s["name"] or s["digest"][:12],
            s["digest"][:12],
            *map(str, s["weights"]),
            count(s["examples"]),
            count(s["tokens"]),
            s["epochs"],
            _position(s["first_epoch_ends"]),
            _position(s["ends"]),
            *((f"{float(s['padding']):.2%}" if s["padding"] is not None else "-",) if padded else ()),
        )
        for s in stream["sources"]
    ]
    head = ("source", "digest", *heads, "examples", "tokens", "epochs", "first epoch ends", "ends")
    print_table(rows, (*head, "padding") if padded else head)


def _position(position: int | None) -> str:
    return "-" if position is None else count(position)
