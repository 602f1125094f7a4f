"""Shape: what the examples of a dataset look like: their length, their packing, and the arrays that a batch has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dsbuild.errors import DsbuildError
from dsbuild.graph import Derivation

IGNORED = -100
"""The label of a position without loss."""

DOCUMENTS = ("segment_ids", "position_ids")
"""The arrays that a document mask adds."""


class RangeError(DsbuildError, IndexError):
    """A step, example, rank, column or dtype that a dataset does not have."""

    exit_code = 4
    title = "not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``length`` L of examples; ``pack``: concat, fit or none; ``mask``: none, document or prefix; ``pad``: a token id.

    ``columns``: those that the recipe names, empty = tokens and labels. ``shapes``: static lengths of ragged columns.
    ``overlong``: what becomes of records above L + 1 tokens.
    """

    length: int
    pack: str
    mask: str = "none"
    pad: int = 0
    overlong: str = "error"
    columns: tuple[str, ...] = ()
    shapes: Mapping[str, int] = field(default_factory=dict)

    @property
    def packed(self) -> bool:
        """Whether an example may have several records, so that further columns are windowed as the tokens are."""
        return self.pack != "none"

    @property
    def documents(self) -> bool:
        """Whether examples tell their documents apart."""
        return self.mask != "none"

    @property
    def tokens(self) -> bool:
        """Whether examples have tokens at all: a recipe may serve other columns alone."""
        return not self.columns or "input_ids" in self.columns or self.packed

    @property
    def own_labels(self) -> bool:
        """Whether labels are a column of the records where they have one: else every token is a target."""
        return not self.columns or "labels" in self.columns or self.mask == "prefix"

    @property
    def further(self) -> tuple[str, ...]:
        """Columns beside tokens and labels, sorted."""
        return tuple(c for c in self.columns if c not in ("input_ids", "labels"))

    @property
    def given(self) -> tuple[str, ...]:
        """The arrays that a batch has where nobody asks for others, in order."""
        found = ["input_ids", "labels"] if self.tokens else []
        found += [*DOCUMENTS, "prefix_mask"] if self.mask == "prefix" else DOCUMENTS if self.documents else []
        return (*found, *self.further)

    @property
    def known(self) -> tuple[str, ...]:
        """All arrays that may be asked for: ``given``, and ``cu_seqlens`` where documents are told apart."""
        return (*self.given, "cu_seqlens") if self.documents else self.given

    def chosen(self, columns: Sequence[str] | str | None) -> tuple[str, ...]:
        """The arrays that a caller asks for, None = ``given``. Raises ``RangeError`` for one that is not known."""
        names = self.given if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
        unknown = [n for n in names if n not in self.known]
        if unknown:
            raise RangeError(
                f"columns {', '.join(map(repr, unknown))}: this dataset gives {', '.join(self.known)}",
                kind="out-of-range",
            )
        return names


def shape_of(top: Derivation) -> Shape:
    """The shape that a ``dataset`` derivation tells."""
    a = top.arguments
    return Shape(
        length=int(a["length"]),
        pack=str(a["pack"]),
        mask=str(a.get("mask", "none")),
        pad=int(a.get("pad", 0)),
        overlong=str(a.get("overlong", "error")),
        columns=tuple(a.get("columns", ())),
        shapes={str(k): int(v) for k, v in a.get("shapes", {}).items()},
    )


def token_dtype(wanted: Any, stored: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """``wanted`` as a dtype of whole numbers that holds every id of arrays of ``stored`` dtypes.

    Raises ``RangeError`` for another one.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(wanted)
    except TypeError:
        raise RangeError(f"dtype {wanted!r}: numpy knows no such dtype", kind="out-of-range") from None
    if dtype.kind not in "iu" or any(not _holds(dtype, s) for s in stored):
        names = ", ".join(sorted({str(s) for s in stored}))
        raise RangeError(f"dtype {dtype}: does not hold every token id of this dataset ({names})", kind="out-of-range")
    return dtype


def _holds(dtype: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    """Whether ``dtype`` holds what ``stored`` may have; of 32 and 64 bits, ids use 31 at most."""
    return dtype.itemsize >= 4 or bool(np.can_cast(stored, dtype))
