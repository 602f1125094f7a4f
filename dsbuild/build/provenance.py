"""Provenance: the files that the parts of a ``records`` node were made of, for messages; decides nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from dsbuild.build.plan import World, manifest_of
from dsbuild.build.tasks import Place
from dsbuild.digest import Digest


def places(world: World, records: Digest) -> list[tuple[Place, ...]]:
    """For each part of ``records`` the places of its segments; none where its files are not here.

    Parts made of another node's parts (a branch, another recipe) have the places of those.
    """
    manifest = manifest_of(world, records)
    names: dict[int, tuple[str, Path]] = {}
    inherited: list[tuple[Place, ...]] = []
    ordinal = 0
    for strand in world.strands(records):
        derivation = world.derivation(strand.base)
        if derivation.kind == "records":
            inherited += places(world, strand.base)
        else:
            for number, text in enumerate(derivation.inputs, ordinal):
                if text in world.files:
                    names[number] = (world.files[text].name, Path(world.files[text].path))
        ordinal += len(derivation.inputs)
    rest = iter(inherited)
    found: list[tuple[Place, ...]] = []
    for first, last in pairwise(manifest.part_segments.tolist()):
        if first == last:  # a part of another node; they come in order
            found.append(next(rest, ()))
            continue
        files = manifest.segment_file[first:last].tolist()
        starts = manifest.segment_first[first:last].tolist()
        known = all(file in names for file in files)
        found.append(
            tuple(Place(name=names[f][0], path=names[f][1], first=s) for f, s in zip(files, starts, strict=True))
            if known
            else ()
        )
    return found
