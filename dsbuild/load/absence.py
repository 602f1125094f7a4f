"""Absence: why no example of a mixture has a record: filtered, skipped, dropped, of another split, or not reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbuild.digest import Digest
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.load.opening import derivation_of
from dsbuild.load.part import Ints, Part
from dsbuild.load.provenance import File, Known, Lineage
from dsbuild.load.source import Source
from dsbuild.schema import SEGMENT_BITS
from dsbuild.store import Manifest
from dsbuild.store.names import printable

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What is asked for: record number ``record`` of ``file`` in ``view``, the source that people call ``name``."""

    dataset: Dataset
    view: Source
    name: str
    told: Known
    lineage: Lineage
    file: File
    record: int

    def unknown(self) -> NotFoundError:
        """No part can have it."""
        if self.record < 0:
            return self._error("records count from 0")
        return self._error("no part of the source has records of this file")

    def without_rows(self, part: Part, origins: Ints, origin: int) -> NotFoundError:
        """Its part has no row of it, among rows with ``origins``: it was skipped or filtered, or does not exist."""
        reason = self._skipped(part)
        if reason is not None:
            return self._error(f'skipped (on_error = "skip"): {reason}')
        why = "left out: a handler filtered it, or it was skipped as a bad record"
        same = origins[origins >> SEGMENT_BITS == origin >> SEGMENT_BITS]
        if self.lineage.is_last(self.file.ordinal, part.number, origin) and (not len(same) or same.max() < origin):
            why += ", or the file ends before it"
            if len(same):
                why += f" (the last one that is left is record {self.record - origin + int(same.max())})"
        return self._error(why)

    def of_other_split(self, part: Part, rows: Ints) -> NotFoundError:
        """None of its ``rows`` is in the view's split."""
        split = self.dataset.split
        others = sorted({name for name, chosen in self._splits(part.number) if np.isin(rows, chosen).any()} - {split})
        if others:
            return self._error(f"not in split '{split}' but in {', '.join(map(repr, others))}")
        return self._error(f"not in split '{split}', nor in another one that a mixture of this hash reads")

    def in_no_example(self, part: Part, rows: Ints) -> NotFoundError:
        """Its ``rows`` are in the split, but in no example."""
        offsets = part.offsets("input_ids")
        tokens = offsets[rows + 1] - offsets[rows]
        most = self.view.shape.length + 1
        if int(tokens.max()) > most and self.view.packing is not None:
            return self._error(f'dropped: {int(tokens.max())} tokens, above length + 1 = {most} (overlong = "drop")')
        if not tokens.any():
            return self._error("it has no tokens")
        return self._error("its reader has fewer than 2 tokens, which make no example")

    def not_reached(self, examples: list[int], taken: int) -> NotFoundError:
        """It is in ``examples`` of the source, of which the stream takes only ``taken``."""
        shown = ", ".join(map(str, examples[:_SHOWN])) + (", …" if len(examples) > _SHOWN else "")
        return self._error(
            f"the stream ends before example {shown} of the source: it takes {taken} of its {self.view.length}",
            hint="'until' and 'max_epochs' of the mixture say where it ends",
        )

    def _error(self, why: str, hint: str | None = None) -> NotFoundError:
        place = f"source '{self.name}', record {self.record} of {self.file.name or self.file.id[:15]}"
        return NotFoundError(f"{place}: {why}", kind="not-in-stream", hint=hint)

    def _skipped(self, part: Part) -> str | None:
        """Why it was skipped, as the realisation of its part lists it; None if it is not listed there."""
        try:
            made = self.view.store.realisation(self.view.records.action(part.number))
        except CorruptError:
            return None
        listed: list[Mapping[str, Any]] = [] if made is None else [s for s in made.skips if s["record"] == self.record]
        first, last = self.lineage.part_segments[part.number : part.number + 2]
        if last - first > 1:  # of several files; equal ones may be listed under each other's names
            twins = {n for n, text in enumerate(self.lineage.ids()) if text == self.file.id}
            places = tuple(f"{name}: " for n, name in self.lineage.names(self.told) if n in twins)
            listed = [s for s in listed if str(s["place"]).startswith(places)]
        return printable(str(listed[0]["reason"])) if listed else None

    def _splits(self, part: int) -> Iterator[tuple[str, Ints]]:
        """(name, rows of ``part``) of each split of the same records that a mixture of the hash reads."""
        store = self.view.store
        top = derivation_of(store, self.dataset.digest)
        assert isinstance(top.inputs, Mapping)
        for mixture in sorted(top.inputs):
            for view in derivation_of(store, Digest.parse(top.inputs[mixture])).references():
                found = self._split_under(view)
                if found is not None:
                    name, manifest = found
                    chosen = store.object(manifest.content(part))
                    rows, _ = chosen.column("row")
                    chosen.touch_all()
                    yield name, rows

    def _split_under(self, view: Digest) -> tuple[str, Manifest] | None:
        at, store = view, self.view.store
        while (derivation := derivation_of(store, at)).kind in ("order", "pack"):
            at = next(iter(derivation.references()))
        if derivation.kind != "split" or next(iter(derivation.references())) != self.lineage.records:
            return None
        manifest = store.manifest(at)
        name = str(derivation.arguments.get("name", ""))
        return None if manifest is None or len(manifest) != len(self.view.records) else (name, manifest)
