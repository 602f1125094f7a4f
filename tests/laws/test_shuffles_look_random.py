"""Law: inside windows and eras orders are uniform, no window's tells another's, and neighbours show no pattern."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from dsbuild.order.family import Family
from dsbuild.order.shuffle import order_of

KEYS = 20
LIMIT = 5.0


def keys(count):
    return [b"key %d" % number for number in range(count)]


def z_of_counts(counts, shares=1):
    """How far from the ``shares`` counts are, as a normal deviate (chi-square, Wilson and Hilferty)."""
    expected = counts.sum() * shares / (np.zeros(counts.size) + shares).sum()
    freedom = counts.size - 1
    ratio = float(((counts - expected) ** 2 / expected).sum()) / freedom
    return (ratio ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))


def codes(orders):
    """Each row's order of n things as a number below n!."""
    count, n = orders.shape
    found = np.zeros(count, np.int64)
    for at in range(n):
        found = found * (n - at) + (orders[:, at + 1 :] < orders[:, at : at + 1]).sum(axis=1)
    return found


def z_of_orders(shuffle, n, windows, build=order_of):
    """Over keys together: all orders in a window, and all pairs of the first places of neighbouring windows."""
    orders, pairs = np.zeros(math.factorial(n), np.int64), np.zeros(n * n, np.int64)
    for key in keys(KEYS):
        found = build(shuffle, key, n * windows)(np.arange(n * windows)).reshape(windows, n)
        ranks = np.argsort(np.argsort(found, axis=1), axis=1)
        orders += np.bincount(codes(ranks), minlength=orders.size)
        pairs += np.bincount(ranks[1:, 0] * n + ranks[:-1, 0], minlength=pairs.size)
    return {"orders": z_of_counts(orders), "neighbours": z_of_counts(pairs)}


# {block 1, window n} is left out: there the ranks inside a window are those of the blocks' order too
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("shuffle", ["era", "block"])
def test_all_orders_are_as_likely(shuffle, n):
    shape = {"era": n} if shuffle == "era" else {"block": n, "window": 1}
    found = z_of_orders(shape, n, 2000)
    assert {name: z for name, z in found.items() if abs(z) > LIMIT} == {}


class Plain:
    """Eras in the order of ``Family`` under numbers that ``number`` changes."""

    def __init__(self, shuffle, key, n, number):
        self.n, self.era, self.family, self.number = n, shuffle["era"], Family(key, shuffle["era"]), number

    def __call__(self, positions):
        eras, inside = np.divmod(positions, self.era)
        return eras * self.era + self.family(self.number(eras), inside)


def test_law_kills_one_order_for_all_eras():
    found = z_of_orders({"era": 4}, 4, 2000, lambda *given: Plain(*given, lambda eras: eras * 0))
    assert found["orders"] > 20


def test_law_kills_eras_in_pairs():
    found = z_of_orders({"era": 4}, 4, 2000, lambda *given: Plain(*given, lambda eras: eras // 2))
    assert found["neighbours"] > 20


def patterns(shuffle, size, build=order_of):
    """z-scores, pooled over keys, of what a weak order shows in windows of ``size`` positions."""
    windows = max(2, 60_000 // size)
    bins: dict[str, np.ndarray] = {}
    mono = 0
    sums: Counter[str] = Counter()
    for number, key in enumerate(keys(KEYS)):
        order = build(shuffle, key, 10**12)
        start = number * 10**9 // size * size
        found = order(np.arange(start, start + windows * size)).reshape(windows, size)
        ranks = np.argsort(np.argsort(found, axis=1), axis=1) if "block" in shuffle else found % size
        odd = found & 1
        cells = {
            "low bits": found[:, : size // 2] & 15,  # of whole windows they are uniform
            "serial": odd[:, 1:] * 2 + odd[:, :-1],
            "serial bits": (found[:, 1:] ^ found[:, :-1]) & 15,
            "across windows": ((ranks[1:] - ranks[:-1]) % size) * 64 // size,
            "lag 1": ((ranks[:, 1:] - ranks[:, :-1]) % size) * 64 // size,
            "place": ranks[:, : size // 8] * 64 // size,
        }
        for name, values in cells.items():
            count = {"serial": 4, "low bits": 16, "serial bits": 16}.get(name, 64)
            bins[name] = bins.get(name, 0) + np.bincount(values.reshape(-1), minlength=count)
        batches = odd.reshape(-1)[: odd.size // 32 * 32].reshape(-1, 32).sum(axis=1)
        mono += int(((batches == 0) | (batches == 32)).sum())
        centred = ranks / size - 0.5
        sums["correlation"] += float((centred[:, 1:] * centred[:, :-1]).sum()) * 12
        sums["correlation across"] += float((centred[1:] * centred[:-1]).sum()) * 12
    total = math.sqrt(windows * size * KEYS)
    steps = np.bincount(np.arange(1, size) * 64 // size)  # no step inside a window is 0
    scores = {name: z_of_counts(counts, steps if name == "lag 1" else 1) for name, counts in bins.items()}
    return scores | {name: value / total for name, value in sums.items()} | {"batches of one parity": mono}


# sizes by 64, so that the cells of 64 are even
SHUFFLES = [
    ({"era": 1024}, 1024),
    ({"era": 4096}, 4096),
    ({"era": 8192}, 8192),
    ({"era": 65_536}, 65_536),
    ({"block": 64, "window": 16}, 1024),
    ({"block": 1, "window": 4096}, 4096),
    ({"block": 1024, "window": 16}, 16_384),
]


@pytest.mark.parametrize(("shuffle", "size"), SHUFFLES, ids=str)
def test_no_pattern(shuffle, size):
    found = patterns(shuffle, size)
    # counts that are too even are no pattern: whole windows are drawn without replacement
    assert {name: z for name, z in found.items() if z > LIMIT or ("correl" in name and z < -LIMIT)} == {}


def test_law_kills_odd_multiples():
    class Multiples:
        """An era as an odd multiple of the place: a peer's linear congruence."""

        def __init__(self, shuffle, key, n):
            self.era, self.odd = shuffle["era"], 2 * len(key) + 0x2545
            self.shift = key[-1] * 977

        def __call__(self, positions):
            return positions // self.era * self.era + (positions * self.odd + self.shift) % self.era

    found = patterns({"era": 4096}, 4096, Multiples)
    assert found["serial"] > 100 and found["lag 1"] > 100


def test_law_kills_one_order_for_all_long_eras():
    found = patterns({"era": 8192}, 8192, lambda *given: Plain(*given, lambda eras: eras * 0))
    assert found["across windows"] > 100
