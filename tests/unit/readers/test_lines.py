"""Lines are the same wherever the pieces of the input end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsbuild.interfaces import CutRule
from dsbuild.readers import decompress, lines

PIECES = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b'"', b" ", b"\t", b"long line, ", b"\xc3\xa9"]), max_size=60)


def expected(data: bytes, quoted: bool) -> list[bytes]:
    """One byte after the other."""
    found, line, inside = [], b"", False
    for byte in data.removeprefix(b"\xef\xbb\xbf"):
        if byte == 34:
            inside = quoted and not inside
        if byte == 10 and not inside:
            found.append(line)
            line = b""
        else:
            line += bytes([byte])
    found += [line.removesuffix(b"\n")] if line else []
    found = [raw.removesuffix(b"\r") for raw in found]
    return [raw for raw in found if raw.strip(b" \t\r\n")]


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=PIECES, quoted=st.booleans(), mark=st.booleans(), size=st.integers(1, 20))
def test_runs(tmp_path: Path, parts: list[bytes], quoted: bool, mark: bool, size: int) -> None:
    data = b"\xef\xbb\xbf" * mark + b"".join(parts)
    path = tmp_path / "a"
    path.write_bytes(data)
    form = lines.Form(quoted=quoted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decompress, "PIECE", size)
        found = list(lines.runs(path, 0, None, form))
        cuts, _ = lines.split(path, CutRule(part_bytes=16), form)
    assert b"".join(run.data for run in found) == data
    assert [run.raw(i) for run in found for i in range(len(run.ends)) if run.real[i]] == expected(data, quoted)
    for run in found:
        assert [raw.removesuffix(b"\r") for raw in run.lines(quoted)] == [run.raw(i) for i in range(len(run.ends))]
        assert run.before == data[: run.start].count(b"\n")
    assert cuts == lines.split(path, CutRule(part_bytes=16), form)[0], "cuts depend on the pieces"
    counts = [len(expected(data[cut.start : cut.stop], quoted)) for cut in cuts]
    assert [cut.first for cut in cuts] == [sum(counts[:i]) for i in range(len(cuts))]


def test_a_header_is_no_record_and_stands_in_the_first_cut_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\n h\r\n1\n2\n")
    cuts, header = lines.split(path, CutRule(part_bytes=1), lines.Form(header=True))
    assert header == b" h"
    assert [(c.start, c.stop, c.first) for c in cuts] == [(0, 7, 0), (7, 9, 1)]
