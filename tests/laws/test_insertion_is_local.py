"""Law: a line put into a file or taken out disturbs a few cuts, wherever it is; the others keep their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsbuild.interfaces import CutRule
from dsbuild.readers import lines
from dsbuild.readers.jsonl import JsonLines

RULE = CutRule(part_bytes=8000)
BOUND = 8
"""Cuts disturbed on the average of many places: about 2 as measured."""


def disturbed(path: Path) -> float:
    """Cuts of new content, mean over places where a line is put in or taken out of a file of about 100 cuts."""
    text = [b'{"n": %06d, "t": "%s"}\n' % (i, b"x" * 80) for i in range(100_000, 107_000)]  # of one length: the worst
    contents = []
    places = range(0, 6000, 300)
    for place in (None, *places):
        changed = list(text)
        if place is not None and place % 600:
            del changed[place]
        elif place is not None:
            changed.insert(place, text[place].replace(b"x", b"y"))
        path.write_bytes(b"".join(changed))
        contents.append({cut.content for cut in JsonLines().split(path, RULE, {}).cuts})
    assert len(contents[0]) > 50
    return sum(len(found - contents[0]) for found in contents[1:]) / len(places)


def test_insertion_is_local(tmp_path: Path) -> None:
    assert disturbed(tmp_path / "a.jsonl") < BOUND


def test_the_law_kills_cuts_of_a_fixed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: no record is ever chosen, so that all borders are forced ones."""
    monkeypatch.setattr(lines, "chance", lambda data: 2**64 - 1)
    assert disturbed(tmp_path / "a.jsonl") > 2 * BOUND
