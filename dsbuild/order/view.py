"""View: how many examples a source gives, from numbers of its parts alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dsbuild.order.deal import part_order, reader_parts
from dsbuild.order.pack import concat_count

Ints = NDArray[np.int64]


def first_files(part_segments: NDArray[np.integer], segment_file: NDArray[np.integer]) -> Ints:
    """int64[n]: the file that each of n parts begins in; where parts have no segments, each is a file of its own.

    ``part_segments`` [n + 1]: part i has the segments from ``part_segments[i]`` on, before those of part i + 1;
    ``segment_file``: the ordinal of each segment's file.
    """
    if len(segment_file) == 0 or (np.diff(part_segments) == 0).any():
        return np.arange(len(part_segments) - 1)
    return np.asarray(segment_file[part_segments[:-1]], np.int64)


def concat_total(tokens: NDArray[np.integer], files: NDArray[np.integer], readers: int, length: int) -> int:
    """Number of examples of ``length`` in parts of ``tokens``, which begin in ``files``; ``readers`` 0 = not dealt."""
    if not readers:
        return concat_count(int(tokens.sum()), length)
    return sum(concat_count(int(tokens[p].sum()), length) for p in reader_parts(part_order(files), readers))
