"""Golden orders: the file, an implementation in plain Python integers from the text of the specification, and ours."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild import digest
from dsbuild.order import fit, permute, scramble, weights
from dsbuild.order.block import BlockPermutation
from dsbuild.order.era import EraPermutation
from dsbuild.order.permute import Permutation
from dsbuild.order.slots import Slots

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "order.json").read_text())
M = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def slow_fmix64(x: int) -> int:
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & M
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & M
    return x ^ (x >> 33)


def slow_splitmix64(seed: int, k: int) -> int:
    state = seed
    for _ in range(k + 1):
        state = (state + G) & M
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M
    return z ^ (z >> 31)


def slow_permutation(key: bytes, n: int, positions: list[int]) -> list[int]:
    stream = hashlib.shake_256(key).digest(48)
    words = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(6)]
    return slow_order(words, n, positions)


def slow_order(words: list[int], n: int, positions: list[int]) -> list[int]:
    if n <= 4096:
        order = sorted(range(n), key=lambda i: (slow_fmix64((words[0] + (i + 1) * G) & M), i))
        return [order[i] for i in positions]
    a = next(a for a in range(math.isqrt(n), math.isqrt(n) + 2) if a * a >= n)
    c = (n + a - 1) // a
    found = []
    for x in positions:
        while True:
            left, right = x // c, x % c
            for r in range(0, 6, 2):
                left = (left + ((slow_fmix64(right ^ words[r]) >> 24) * a >> 40)) % a
                right = (right + ((slow_fmix64(left ^ words[r + 1]) >> 24) * c >> 40)) % c
            x = left * c + right
            if x < n:
                break
        found.append(x)
    return found


def slow_numbered(key: bytes, number: int, n: int, positions: list[int]) -> list[int]:
    """Permutation ``number`` of the family of ``key``."""
    stream = hashlib.shake_256(key).digest(48)
    seeds = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(6)]
    return slow_order([slow_splitmix64(seed, number) for seed in seeds], n, positions)


def slow_era(key: bytes, n: int, era: int, position: int) -> int:
    number = position // era
    size = min(era, n - number * era)
    return number * era + slow_numbered(key + b" era", number, size, [position - number * era])[0]


def slow_block(key: bytes, n: int, block: int, window: int, position: int) -> int:
    """Lists the examples of the position's window."""
    blocks = -(-n // block)
    start = 0
    for number in range(-(-blocks // window)):
        places = list(range(number * window, min((number + 1) * window, blocks)))
        chosen = slow_permutation(key + b" block", blocks, places)
        examples = [e for b in chosen for e in range(b * block, min((b + 1) * block, n))]
        if position < start + len(examples):
            return examples[slow_numbered(key + b" window", number, len(examples), [position - start])[0]]
        start += len(examples)
    raise AssertionError(position)


def slow_fit(lengths: list[int], capacity: int) -> list[list[int]]:
    """Of one window."""
    bins: list[dict[str, Any]] = []
    for turn, row in enumerate(sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))):
        if lengths[row]:
            room = min((b["room"] for b in bins if b["room"] >= lengths[row]), default=None)
            if room is None:
                bins.append({"room": capacity, "turn": 0, "rows": []})
                room = capacity
            chosen = max((b for b in bins if b["room"] == room), key=lambda b: b["turn"])
            chosen["room"] -= lengths[row]
            chosen["turn"] = turn
            chosen["rows"].append(row)
    return sorted(sorted(b["rows"]) for b in bins)


def slow_token_weights(ratios: list[Fraction]) -> list[int]:
    exact = [ratio * math.lcm(*(r.denominator for r in ratios)) for ratio in ratios]
    exact = [ratio / math.gcd(*(int(r) for r in exact)) for ratio in exact]
    if max(exact) < 1 << 48 and sum(exact) < 1 << 56:
        return [int(weight) for weight in exact]
    for b in range(46, 0, -1):
        found = []
        for ratio in ratios:
            double = 2 * ratio / max(ratios) * 2**b
            down = math.floor(double / 2)
            up = double - 2 * down > 1 or (double - 2 * down == 1 and down % 2 == 1)
            found.append(max(down + up, 1 if ratio else 0))
        if sum(found) < 1 << 56:
            return found
    raise AssertionError


def slow_stream(ratios: list[int], seeds: list[int], length: int) -> list[int]:
    slots = [
        (Fraction((k << 64) + slow_splitmix64(seed, k), weight), source)
        for source, (weight, seed) in enumerate(zip(ratios, seeds, strict=True))
        for k in range(length)
    ]
    return [source for _, source in sorted(slots)[:length]]


def slow_key(value: dict[str, object]) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return digest.of_bytes(digest.Domain.KEY, text.encode()).raw


def test_design_vectors_are_in_the_golden_file() -> None:
    assert {"key": b"k5".hex(), "n": 10**6, "positions": [0, 1, 2, 3], "indices": [331048, 893281, 903964, 409182]} in (
        GOLDEN["permutation"]
    )
    stream = [2, 2, 1, 2, 2, 0, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2, 0, 2, 1, 2]
    assert {"weights": [1, 2, 7], "seeds": [1, 2, 3], "sources": stream} in GOLDEN["stream"]


@pytest.mark.parametrize("vector", GOLDEN["permutation"], ids=lambda v: f"n={v['n']}")
def test_permutation(vector: dict[str, object]) -> None:
    key, n, positions = bytes.fromhex(vector["key"]), vector["n"], vector["positions"]
    assert slow_permutation(key, n, positions) == vector["indices"]
    assert Permutation(key, n)(np.array(positions, np.int64)).tolist() == vector["indices"]


@pytest.mark.parametrize("vector", GOLDEN["stream"], ids=lambda v: str(v["weights"]))
def test_stream(vector: dict[str, list[int]]) -> None:
    ratios, seeds, sources = vector["weights"], vector["seeds"], vector["sources"]
    assert slow_stream(ratios, seeds, len(sources)) == sources
    slots = Slots(ratios, seeds, [None] * len(ratios), [bytes([i]) for i in range(len(ratios))])
    assert slots.locate(0, len(sources))[0].tolist() == sources


@pytest.mark.parametrize("vector", GOLDEN["era"], ids=lambda v: f"n={v['n']} era={v['era']}")
def test_era(vector: dict[str, Any]) -> None:
    key, n, era = bytes.fromhex(vector["key"]), vector["n"], vector["era"]
    assert [slow_era(key, n, era, position) for position in vector["positions"]] == vector["indices"]
    assert EraPermutation(key, n, era)(np.array(vector["positions"], np.int64)).tolist() == vector["indices"]


@pytest.mark.parametrize("vector", GOLDEN["block"], ids=lambda v: f"n={v['n']} {v['block']}x{v['window']}")
def test_block(vector: dict[str, Any]) -> None:
    key, n, block, window = bytes.fromhex(vector["key"]), vector["n"], vector["block"], vector["window"]
    assert [slow_block(key, n, block, window, position) for position in vector["positions"]] == vector["indices"]
    order = BlockPermutation(key, n, block, window)
    assert order(np.array(vector["positions"], np.int64)).tolist() == vector["indices"]


@pytest.mark.parametrize("vector", GOLDEN["fit"], ids=lambda v: str(v["capacity"]))
def test_fit(vector: dict[str, Any]) -> None:
    assert slow_fit(vector["lengths"], vector["capacity"]) == vector["bins"]
    offsets, rows = fit.fit(vector["lengths"], vector["capacity"])
    assert [part.tolist() for part in np.split(rows, offsets[1:-1])] == vector["bins"]


@pytest.mark.parametrize("vector", GOLDEN["token_weights"], ids=lambda v: v["ratios"][0])
def test_token_weights(vector: dict[str, Any]) -> None:
    ratios = [Fraction(ratio) for ratio in vector["ratios"]]
    assert slow_token_weights(ratios) == vector["weights"]
    assert weights.token_weights(ratios) == vector["weights"]


def test_scramblers() -> None:
    for vector in GOLDEN["fmix64"]:
        assert slow_fmix64(vector["word"]) == vector["hash"]
        assert scramble.fmix64(np.array([vector["word"]], np.uint64)).tolist() == [vector["hash"]]
    for vector in GOLDEN["splitmix64"]:
        outputs = [slow_splitmix64(vector["seed"], k) for k in range(len(vector["outputs"]))]
        assert outputs == vector["outputs"]
        ks = np.arange(len(outputs), dtype=np.uint64)
        assert scramble.splitmix64(np.full(len(outputs), vector["seed"], np.uint64), ks).tolist() == outputs


def test_splitmix64_of_the_reference_program() -> None:
    # the first outputs of Vigna's splitmix64.c with x = 1234567, published with many ports of it
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [slow_splitmix64(1234567, k) for k in range(5)] == expected


def test_keys() -> None:
    for vector in GOLDEN["key"]:
        seed, source, epoch = vector["seed"], vector["source"], vector["epoch"]
        value = {"for": "permutation", "version": 1, "seed": seed, "source": source, "epoch": epoch}
        assert slow_key(value).hex() == vector["key"]
        assert permute.key(seed, digest.Digest.parse(source), epoch).hex() == vector["key"]
    for vector in GOLDEN["phase"]:
        seed, source, stage = vector["seed"], vector["source"], vector["stage"]
        value = {"for": "phase", "version": 1, "seed": seed, "source": source, "stage": stage}
        assert int.from_bytes(slow_key(value)[:8], "little") == vector["phase"]
        assert weights.phase_seed(seed, stage, digest.Digest.parse(source)) == vector["phase"]
