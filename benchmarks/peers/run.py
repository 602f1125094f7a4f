"""Run: a peer's batches, or several peers' in one process, timed in turn with the floor; JSON on stdout.

Usage: run.py CORPUS.json DIRECTORY NAME[,NAME] LENGTH SIZE WORKERS ROUNDS SECONDS. Each name is a module beside this
one, with ``prepare(corpus, directory, length)``, which makes the peer's own format of the same tokens where it is
missing, and ``batches(corpus, directory, length, size, workers)``, an iterator over one epoch of shuffled batches
[size, length]. A peer that is not installed exits with 3. With ROUNDS = 0 only the format is made.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import floor
import private
from rates import Endless, Rated, in_turn

NOT_INSTALLED = 3


def main() -> dict[str, Any]:
    corpus = json.loads(Path(sys.argv[1]).read_text())
    directory, names = Path(sys.argv[2]), sys.argv[3].split(",")
    length, size, workers, rounds = (int(a) for a in sys.argv[4:8])
    seconds = float(sys.argv[8])
    try:
        peers = {name: importlib.import_module(name) for name in names}
    except ImportError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(NOT_INSTALLED)
    directory.mkdir(parents=True, exist_ok=True)
    for peer in peers.values():
        peer.prepare(corpus, directory, length)
    if not rounds:
        return {}
    warm(directory)
    arguments = (corpus, directory, length, size, workers)
    made: dict[str, Rated] = {
        name: Endless(lambda peer=peer: checked(peer.batches(*arguments), size, length), length * size)
        for name, peer in peers.items()
    }
    for one in made.values():
        one.rate(seconds)
    held = private.megabytes()
    made["floor"] = floor.Apart(corpus["flat"], length, size)
    return {"rates": in_turn(made, rounds, seconds), "private_mb": held}


def checked(batches: Iterable[Any], size: int, length: int) -> Iterator[Any]:
    """The batches, the first of the shape that is counted."""
    rest = iter(batches)
    first = next(rest)
    assert tuple(first.shape) == (size, length), f"a batch of {tuple(first.shape)}"
    return itertools.chain((first,), rest)


def warm(directory: Path) -> None:
    """Read all files, so that none comes from the disk later."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer = os.dup(1)  # what peers print goes elsewhere
    os.dup2(2, 1)
    found = main()
    os.write(answer, json.dumps(found).encode() + b"\n")
    os._exit(0)  # peers' threads and workers have nothing to finish
