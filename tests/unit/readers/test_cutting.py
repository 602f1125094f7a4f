"""The cut rule, against a slow reading of its text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dsbuild.digest import Domain, of_bytes
from dsbuild.interfaces import CutRule
from dsbuild.readers.cutting import Cutter, chance, is_border
from dsbuild.readers.jsonl import JsonLines

GOLDEN = [5247, 9460, 12654, 17034, 20838, 22890]
GOLDEN_CHANCE = 1112020715426493169


def slow_borders(lines: list[bytes], part_bytes: int) -> list[int]:
    """Ends of cuts as the rule says them: h64 < size 2^64 / (part_bytes / 4) from 3/4 on, forced at 3/2."""
    borders, start, at = [], 0, 0
    for line in lines:
        at += len(line)
        taken = at - start
        draw = int.from_bytes(of_bytes(Domain.CUTS, line.rstrip(b"\n")).raw[:8], "little")
        if taken >= part_bytes * 3 // 2 or (
            taken >= part_bytes * 3 // 4 and draw < len(line) * 2**64 // (part_bytes // 4)
        ):
            borders.append(at)
            start = at
    return borders if start == at else [*borders, at]


@pytest.mark.parametrize("part_bytes", [40, 400, 4000, 40_000])
def test_borders(tmp_path: Path, part_bytes: int) -> None:
    made = random.Random(part_bytes)
    lines = [b"x" * made.randint(1, 100) + b"%d\n" % made.random().as_integer_ratio()[0] for _ in range(3000)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    cuts = JsonLines().split(tmp_path / "a.jsonl", CutRule(part_bytes=part_bytes), {}).cuts
    assert [c.stop for c in cuts] == slow_borders(lines, part_bytes)
    data = b"".join(lines)
    assert all(c.content == of_bytes(Domain.FILE, data[c.start : c.stop]) for c in cuts)


def test_golden_borders(tmp_path: Path) -> None:
    """Borders never move: they are in what builds reuse."""
    (tmp_path / "a.jsonl").write_bytes(b"".join(b'{"a": %d}\n' % i for i in range(2000)))
    cuts = JsonLines().split(tmp_path / "a.jsonl", CutRule(part_bytes=4096), {}).cuts
    assert [c.stop for c in cuts] == GOLDEN
    assert chance(b'{"a": 0}') == GOLDEN_CHANCE


def test_is_border() -> None:
    rule = CutRule(part_bytes=400)
    assert not is_border(rule, 299, 99, 0) and is_border(rule, 300, 1, 0)
    assert is_border(rule, 300, 50, 2**63 - 1) and not is_border(rule, 300, 50, 2**63)
    assert is_border(rule, 600, 1, 2**64 - 1) and not is_border(rule, 599, 1, 2**64 - 1)
    assert is_border(CutRule(part_bytes=1), 1, 1, 2**64 - 1)


def test_a_border_stands_before_a_unit_that_would_be_too_much() -> None:
    cutter, rule = Cutter(), CutRule(part_bytes=400)
    for size in (100, 550, 100):
        cutter.take_unit(rule, b"", [b"\1" * size], size=size, records=2, units=1)
    assert [(c.start, c.stop, c.first) for c in cutter.finish()] in (
        [(0, 1, 0), (1, 2, 2), (2, 3, 4)],
        [(0, 1, 0), (1, 3, 2)],
    )


def test_nothing_is_one_empty_cut() -> None:
    (cut,) = Cutter().finish()
    assert (cut.start, cut.stop, cut.first, cut.content) == (0, 0, 0, of_bytes(Domain.FILE, b""))
