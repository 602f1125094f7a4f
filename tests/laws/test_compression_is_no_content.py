"""Law: a file has the same cuts, contents and records plain, as gzip and as zstd, however it was packed."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsbuild.digest import Domain, of_bytes
from dsbuild.interfaces import Cut, CutRule, CutTable
from dsbuild.readers.jsonl import JsonLines
from dsbuild.testing import readers as suite

LINES = st.lists(st.integers(0, 10**30).map(lambda n: b'{"n": %d}\n' % n), max_size=80)


def store(folder: Path, data: bytes, places: list[int], level: int) -> list[Path]:
    """``data`` plain, and in members and frames that begin at ``places``."""
    ends = sorted({0, len(data), *(p % (len(data) + 1) for p in places)})
    pieces = [data[a:b] for a, b in pairwise(ends)] or [b""]
    stored = {
        "a.jsonl": data,
        "a.jsonl.gz": b"".join(gzip.compress(piece, level) for piece in pieces),
        "a.jsonl.zst": b"".join(zstandard.compress(piece, level) for piece in pieces),
    }
    for name, content in stored.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in stored]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=LINES,
    places=st.lists(st.integers(0, 5000), max_size=5),
    level=st.integers(1, 9),
    part_bytes=st.integers(1, 2000),
)
def test_compression_is_no_content(
    tmp_path: Path, made: list[bytes], places: list[int], level: int, part_bytes: int
) -> None:
    data = b"".join(made)
    files = store(tmp_path, data, places, level)
    suite.check_same_content(JsonLines(), files, CutRule(part_bytes=part_bytes))
    (cut,) = JsonLines().split(files[1], CutRule(part_bytes=1 << 30), {}).cuts
    assert cut.content == of_bytes(Domain.FILE, data), (
        "the content of one whole cut is what b3sum says of the plain file"
    )


def test_the_law_kills_content_of_stored_bytes(tmp_path: Path) -> None:
    """Mutant: content is the digest of the file as it lies on disk."""
    files = store(tmp_path, b'{"n": 1}\n' * 20, [], 1)

    class Mutant(JsonLines):  # type: ignore[misc]
        def split(self, path: Path, *_: object) -> CutTable:
            return CutTable(cuts=(Cut(start=0, stop=None, first=0, content=of_bytes(Domain.FILE, path.read_bytes())),))

    with pytest.raises(AssertionError, match="other content"):
        suite.check_same_content(Mutant(), files, CutRule())
