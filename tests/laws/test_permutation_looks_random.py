"""Law: over many keys, orders are uniform at tiny n, and at large n show no parity, low-bit, serial or lag pattern."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from dsbuild.order.permute import Permutation

KEYS = 24
WINDOW = 60_000
LIMIT = 5.0  # of some 150 z-scores over fixed keys


class Feistel(Permutation):
    """A network of ``rounds`` rounds at any n, without the table."""

    __slots__ = ()

    rounds = 6

    def __init__(self, key, n):
        super().__init__(key, n)
        self._table = None
        self._words = self._words[: self.rounds]


class FourRounds(Feistel):
    __slots__ = ()

    rounds = 4


class OddMultiples:
    """A peer's round, (right * odd + key) & mask: the low bits never meet the high ones."""

    def __init__(self, key, n):
        self.bits = (n - 1).bit_length() // 2
        self.words = np.frombuffer((key * 64)[:64], np.uint64)

    def __call__(self, positions):
        mask = np.uint64((1 << self.bits) - 1)
        values = positions.astype(np.uint64)
        left, right = values >> np.uint64(self.bits), values & mask
        for word in self.words[:5]:
            left, right = right, left ^ ((right * (word | np.uint64(1)) + word) & mask)
        return ((left << np.uint64(self.bits)) | right).astype(np.int64)


def keys(count):
    return [b"key %d" % number for number in range(count)]


def z_of_counts(counts):
    """How far from uniform counts are, as a normal deviate (chi-square, Wilson and Hilferty)."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    ratio = float(((counts - expected) ** 2).sum() / expected) / freedom
    return (ratio ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))


def z_of_orders(n, count, kind=Permutation):
    positions = np.arange(n)
    seen = Counter(kind(key, n)(positions).tobytes() for key in keys(count))
    counts = np.zeros(math.factorial(n))
    counts[: len(seen)] = list(seen.values())
    return z_of_counts(counts)


@pytest.mark.parametrize(("n", "count"), [(2, 1000), (3, 3000), (4, 3000), (5, 4000), (6, 8000), (7, 26_000)])
def test_all_orders_are_as_likely(n, count):
    assert abs(z_of_orders(n, count)) < LIMIT


def test_law_kills_a_network_on_six():
    assert z_of_orders(6, 2000, Feistel) > 12


def patterns(n, kind=Permutation):
    """z-scores, pooled over keys, of what a weak permutation shows in windows of neighbours."""
    rows = math.isqrt(n - 1) + 1
    columns = -(-n // rows)
    length = min(WINDOW, n - 2 * columns)
    pooled: Counter[str] = Counter()
    bins: dict[str, np.ndarray] = {}
    for number, key in enumerate(keys(KEYS)):
        order = kind(key, n)
        start = (n - 2 * columns - length) * number // KEYS
        positions = start + np.arange(length)
        first = order(positions)
        for name, lag in (("1", 1), ("c", columns), ("2c", 2 * columns)):
            second = order(positions + lag)
            differences = {
                "value": (second - first) % n * 64 // n if n < 1 << 50 else None,
                "row": (second // columns - first // columns) % rows,
                "column": (second % columns - first % columns) % columns,
                "bits": (first ^ second) & 15,
            }
            for what, values in differences.items():
                cells = {"value": 64, "row": rows, "column": columns, "bits": 16}[what]
                if cells > 5000:  # too few a cell: the near differences only, where weak rounds show
                    values, cells = np.minimum(np.minimum(values, cells - values), 50), 51
                    near = np.bincount(values, minlength=51)[:50]
                    name_near = f"near {what} lag {name}"
                    bins[name_near] = bins.get(name_near, 0) + np.array([near[1:].sum(), length - near[1:].sum()])
                    continue
                counted = np.bincount(values, minlength=cells)
                bins[f"{what} lag {name}"] = bins.get(f"{what} lag {name}", 0) + counted
        bins["low bits"] = bins.get("low bits", 0) + np.bincount(first & 15, minlength=16)
        bins["serial"] = bins.get("serial", 0) + np.bincount((first[1:] & 1) * 2 + (first[:-1] & 1), minlength=4)
        odd = (first[: length // 32 * 32] & 1).reshape(-1, 32).sum(axis=1)
        pooled["batches of one parity"] += int(((odd == 0) | (odd == 32)).sum())
        centred = first / n - 0.5
        pooled["correlation"] += float((centred[1:] * centred[:-1]).sum()) * 12 / math.sqrt(length * KEYS)
    found = {name: z_of_counts(counts) for name, counts in bins.items() if not name.startswith("near")}
    for name, (near, far) in ((name, counts) for name, counts in bins.items() if name.startswith("near")):
        share = 2 * 49 / (rows if "row" in name else columns)
        found[name] = (near - (near + far) * share) / math.sqrt((near + far) * share)
    return found | dict(pooled)


SIZES = [5003, 1 << 16, (1 << 16) - 1, (1 << 16) + 1, 65_537 * 3, 1 << 20, 10**6, 1_000_003, 10**12, (1 << 48) - 59]


@pytest.mark.parametrize("n", SIZES)
def test_no_pattern(n):
    found = patterns(n)
    # counts that are too even are no pattern: windows that cover most of a small n draw without replacement
    assert {name: z for name, z in found.items() if z > LIMIT or (name == "correlation" and z < -LIMIT)} == {}


def test_law_kills_four_rounds():
    found = patterns(10**6, FourRounds)
    assert found["row lag c"] > 12 and found["row lag 2c"] > 12


def test_law_kills_odd_multiples():
    assert patterns(1 << 20, OddMultiples)["batches of one parity"] > 1000
