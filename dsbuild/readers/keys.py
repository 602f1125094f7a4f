"""Split keys of records, from their source bytes alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dsbuild.digest import Domain, hasher


def split_keys(sources: Iterable[bytes]) -> np.ndarray:
    """uint64[n]: of each record's source bytes the first 8 bytes, little-endian, of BLAKE3 in ``Domain.SPLIT``."""
    fresh = hasher(Domain.SPLIT)
    found = []
    for source in sources:
        state = fresh.copy()
        state.update(source)
        found.append(state.digest(length=8))
    return np.frombuffer(b"".join(found), "<u8").astype(np.uint64)
