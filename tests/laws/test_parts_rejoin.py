"""Law: the parts of a file, cut at any size and read alone, are together the file's records in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsbuild import registry
from dsbuild.interfaces import Cut, CutRule, CutTable
from dsbuild.testing import readers as suite

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    ".jsonl": ("jsonl", {}),
    ".csv": ("csv", {}),
    ".txt": ("text", {"record": "line"}),
    ".parquet": ("parquet", {}),
    ".arrow": ("arrow", {}),
}
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=40)


def write(path: Path, texts: list[str], ending: str, blank: str) -> Any:
    """``texts`` as records of the format that the suffix of ``path`` says; its reader and arguments."""
    name, arguments = FORMATS[path.suffix]
    if name in ("parquet", "arrow"):
        write_columns(path, texts)
    elif name == "jsonl":
        lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        path.write_bytes((ending + blank).join(lines).encode())
    elif name == "csv":
        quoted = ['"' + text.replace('"', '""') + '"' for text in ["text", *texts]]
        path.write_bytes((ending + ending).join(quoted).encode())
    else:
        path.write_bytes((ending + blank).join(texts).encode())
    return registry.reader(name), arguments


def write_columns(path: Path, texts: list[str]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"text": pa.array(texts, pa.string())})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=3)
        return
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


@pytest.mark.parametrize("suffix", FORMATS)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=TEXTS,
    ending=st.sampled_from(["\n", "\r\n"]),
    blank=st.sampled_from(["", "\n", " \t\r\n"]),
    part_bytes=st.integers(1, 300),
)
def test_parts_rejoin(tmp_path: Path, suffix: str, texts: list[str], ending: str, blank: str, part_bytes: int) -> None:
    path = tmp_path / f"a{suffix}"
    reader, arguments = write(path, texts, ending, blank)
    whole = suite.rows(reader, path, suite.cut_table(reader, path, CutRule(part_bytes=1 << 30), arguments), arguments)
    if suffix != ".txt":
        assert [row["text"] for _, row in whole] == texts
    rule = CutRule(part_bytes=part_bytes)
    suite.check_parts_equal_whole(reader, path, rule, arguments, whole)
    suite.check_cuts(reader, path, rule, arguments)


def test_the_law_kills_a_reader_that_cuts_inside_quotes(tmp_path: Path) -> None:
    """Mutant: borders of a CSV file at any line feed."""
    texts = ["a\nb\nc" * 3] * 20
    reader, arguments = write(tmp_path / "a.csv", texts, "\n", "")
    good = reader.split(tmp_path / "a.csv", CutRule(part_bytes=1 << 30), arguments)
    whole = suite.rows(reader, tmp_path / "a.csv", good, arguments)

    class Mutant:
        name, version, suffixes, arguments = "csv", 1, (".csv",), ()
        read, locate = reader.read, reader.locate

        def whole(self, *_: Any) -> bool:
            return False

        def split(self, path: Path, rule: CutRule, arguments: Any) -> CutTable:
            stop = path.read_bytes().index(b"\nb\n", 100) + 1
            cuts = [Cut(start=a, stop=b, first=0, content=good.cuts[0].content) for a, b in ((0, stop), (stop, None))]
            return CutTable(cuts=tuple(cuts), context=good.context)

    with pytest.raises(Exception, match=r"a\.csv"):
        suite.check_parts_equal_whole(Mutant(), tmp_path / "a.csv", CutRule(part_bytes=1), arguments, whole)
