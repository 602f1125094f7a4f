"""Examples: what a built dataset must be able to give, checked when the build ends and not first in the trainer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dsbuild.build.plan import World
from dsbuild.digest import Digest
from dsbuild.errors import BuildError
from dsbuild.graph.derivation import Derivation
from dsbuild.order.pack import concat_count


def check_examples(world: World) -> Iterator[BuildError]:
    """An error for each source of each mixture that gives no example, or has a record longer than examples may be."""
    top = world.graph.derivations[world.graph.output]
    if top.kind != "dataset":
        return
    for name in sorted(top.inputs):
        mixture = world.derivation(Digest.parse(dict(top.inputs)[name])) if isinstance(top.inputs, dict) else None
        for view in mixture.references() if mixture is not None else ():
            yield from _check_view(world, top, name, view)


def _check_view(world: World, top: Derivation, mixture: str, view: Digest) -> Iterator[BuildError]:
    derivation, at, readers = world.derivation(view), view, 1
    if derivation.kind == "order":
        readers = int(derivation.arguments["readers"])
        (at,) = derivation.references()
    manifest = world.store.manifest(at)
    if manifest is None:
        return
    label, length = world.graph.label(view), int(top.arguments["length"])
    none = np.zeros(len(manifest), np.int64)
    if top.arguments["pack"] == "concat":
        tokens = int(manifest.elements.get("input_ids", none).sum())
        count = concat_count(tokens, length) if readers == 1 else tokens // 2
    else:
        count = manifest.total
    if count == 0:
        yield BuildError(
            f"mixture.{mixture}: {label} gives no example ({manifest.total} records)",
            kind="empty",
            hint="look at its files and filters, or leave it out of the mixture's weights",
        )
    longest = manifest.longest.get("input_ids", none)
    if top.arguments["pack"] == "none" and top.arguments.get("overlong", "error") == "error" and len(longest):
        part = int(np.argmax(longest))
        if int(longest[part]) > length + 1:
            yield BuildError(
                f"mixture.{mixture}: {label}, part {part} has a record of {int(longest[part])} tokens, "
                f"above length + 1 = {length + 1}",
                kind="record-too-long",
                hint='raise [examples] length, or set overlong = "cut", or keep shorter records only',
            )
