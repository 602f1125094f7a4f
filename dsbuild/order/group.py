"""Grouping: which neighbouring small files share a part, so that an added file disturbs few groups, not all behind it.

Borders are chosen by content: whether one stands after a file depends on that file alone.
"""

from __future__ import annotations

from collections.abc import Sequence

VERSION = 1
FILE_COST = 1024
"""What a file weighs beside its bytes, so that files of no bytes end a group too."""


def groups(sizes: Sequence[int], hashes: Sequence[int], *, small: int, group: int) -> list[tuple[int, int]]:
    """Runs [start, stop) of files, in order and covering all.

    ``sizes``: bytes. ``hashes``: 64 bits of each file's content id. A file of at least ``small`` bytes stands alone. A
    smaller one weighs its size plus 1,024; after it stands a border if its hash is below
    floor(2**64 weight / (group div 2)), so a group weighs about half of ``group``, and a border is forced before the
    weight of a group would exceed ``group``. Raises ``ValueError`` for sizes below 0, a ``group`` below 2, or where
    the two lists differ in length.
    """
    if group < 2 or min(sizes, default=0) < 0:
        raise ValueError(f"groups of {group} bytes of files of {min(sizes, default=0)}: must be at least 2 and 0")
    half = group // 2
    found: list[tuple[int, int]] = []
    start = held = 0
    for at, (size, hashed) in enumerate(zip(sizes, hashes, strict=True)):
        weight = size + FILE_COST
        if start < at and (size >= small or held + weight > group):
            found.append((start, at))
            start, held = at, 0
        held += weight
        if size >= small or hashed < (weight << 64) // half:
            found.append((start, at + 1))
            start, held = at + 1, 0
    if start < len(sizes):
        found.append((start, len(sizes)))
    return found
