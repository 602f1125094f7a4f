"""Weights: exact ratios as the integers that mixtures count with, and the phases of their sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dsbuild.digest import Digest, Domain, of_value

VERSION = 1
"""The version of mixtures: ``weights``, ``slots`` and ``mix`` together."""
MOST_WEIGHT = 1 << 48
MOST_TOTAL = 1 << 56


def integer_weights(ratios: Sequence[Fraction]) -> list[int]:
    """The least integers in the proportions of ``ratios``: times their LCM of denominators, over the GCD.

    Zeros are kept. Raises ``ValueError`` for a negative ratio, for none above zero, and for integers that reach 2**48
    or a sum that reaches 2**56, beyond which the arithmetic of mixtures would not be exact.
    """
    if any(ratio < 0 for ratio in ratios):
        raise ValueError(f"weight {min(ratios)}: must be at least 0")
    scale = math.lcm(*(ratio.denominator for ratio in ratios))
    scaled = [int(ratio * scale) for ratio in ratios]
    divisor = math.gcd(*scaled)
    if divisor == 0:
        raise ValueError("no weight above 0")
    found = [weight // divisor for weight in scaled]
    check_weights(found)
    return found


def token_weights(ratios: Sequence[Fraction]) -> list[int]:
    """Integers in the proportions of ``ratios``, exact where they fit and else rounded: for ratios that were measured.

    Exact is what ``integer_weights`` gives. Where it would refuse for size: each ratio over the greatest, times 2**46,
    rounded half to even, zeros kept, others at least 1; times 2**45, 2**44, ... while the sum reaches 2**56. With
    2**46, a weight of 1/m of the greatest, m < 2**46, is off by at most m 2**-47 of itself. Factors common to all
    ratios change nothing. Raises ``ValueError`` for a negative ratio and for none above zero.
    """
    greatest = max(ratios, default=Fraction(0))
    if min(ratios, default=greatest) < 0 or greatest == 0:
        return integer_weights(ratios)  # which says what is wrong
    shares = [ratio / greatest for ratio in ratios]
    scale = 1
    for share in shares:  # the greatest as the least integer; it stops growing early, as the LCM of 10**5 ratios can't
        scale = math.lcm(scale, share.denominator)
        if scale >= MOST_WEIGHT:
            break
    else:
        exact = [int(share * scale) for share in shares]
        if sum(exact) < MOST_TOTAL:
            return exact
    factor = 1 << 46
    while True:
        rounded = [max(round(share * factor), 1) if share else 0 for share in shares]
        if sum(rounded) < MOST_TOTAL:
            return rounded
        factor //= 2


def check_weights(weights: Sequence[int]) -> None:
    """Raise ``ValueError`` unless all are in [0, 2**48), one is above 0, and their sum is below 2**56."""
    if not weights or max(weights) <= 0 or min(weights) < 0:
        raise ValueError("weights must be at least 0, and one of them above 0")
    if max(weights) >= MOST_WEIGHT:
        raise ValueError(f"weight {max(weights):,} in whole numbers: must be under 2**48; use rounder ratios")
    if sum(weights) >= MOST_TOTAL:
        raise ValueError(f"weights of sum {sum(weights):,} in whole numbers: must be under 2**56; use rounder ratios")


def phase_seed(seed: int, stage: int, source: Digest) -> int:
    """The 64-bit seed of the phases of ``source`` (its id) in ``stage`` (from 0) under the recipe's ``seed``."""
    value = {"for": "phase", "version": VERSION, "seed": seed, "stage": stage, "source": source.hex}
    return int.from_bytes(of_value(Domain.KEY, value).raw[:8], "little")
