"""Packing: how the tokens or records of a source become examples, as spans; nothing is copied here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VERSION = 1

Ints = NDArray[np.int64]


def concat_count(tokens: int, length: int) -> int:
    """Number of examples of ``length`` in ``tokens`` concatenated tokens: max(0, ceil((T - 1) / L)).

    Each example predicts L tokens, so T tokens hold T - 1 targets; the last example may be shorter, and none is lost.
    Raises ``ValueError`` for a length below 1 or a negative number of tokens.
    """
    if length < 1 or tokens < 0:
        raise ValueError(f"{tokens:,} tokens in examples of {length:,}: must be at least 0 and 1")
    return max(0, -(-(tokens - 1) // length))


def concat_spans(tokens: int, length: int, examples: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """(start, stop) token positions of ``examples`` (int array): [i L, min(i L + L + 1, T)), L + 1 tokens but the last.

    Neighbours share one token: the last target of one is the first input of the next. Raises ``IndexError`` for an
    example outside [0, ``concat_count``).
    """
    chosen = _checked(examples, concat_count(tokens, length))
    starts = chosen * length
    return starts, np.minimum(starts + length + 1, tokens)


def concat_examples(tokens: int, length: int, start: int, stop: int) -> tuple[int, int]:
    """The examples [first, last) whose window, of L + 1 tokens, has any of the tokens [start, stop).

    A token at a border of two windows is in both, as a target of one and an input of the next. Raises ``IndexError``
    unless 0 <= start <= stop <= ``tokens``, and ``ValueError`` as ``concat_count``.
    """
    count = concat_count(tokens, length)
    if not 0 <= start <= stop <= tokens:
        raise IndexError(f"tokens {start:,} to {stop:,} of {tokens:,}")
    first, last = max(0, (start - 1) // length), min(count, (stop - 1) // length + 1)
    return (first, last) if start < stop and first < last else (first, first)


def none_count(offsets: NDArray[np.integer]) -> int:
    """Number of examples where one record is one example; ``offsets``: the n + 1 token borders of records."""
    return len(offsets) - 1


def none_spans(offsets: NDArray[np.integer], examples: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """(start, stop) token positions of ``examples``: those of the records. Raises ``IndexError`` for others."""
    chosen = _checked(examples, none_count(offsets))
    return offsets[chosen].astype(np.int64), offsets[chosen + 1].astype(np.int64)


def _checked(examples: NDArray[np.integer], count: int) -> Ints:
    chosen = np.asarray(examples).astype(np.int64)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= count):
        raise IndexError(f"examples {chosen.min():,} to {chosen.max():,} of {count:,}")
    return chosen
