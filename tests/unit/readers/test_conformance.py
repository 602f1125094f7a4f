"""The conformance suite on every built-in reader."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather, parquet

from dsbuild import registry
from dsbuild.interfaces import CutRule
from dsbuild.testing import readers as suite

WORDS = ["alpha", "βήτα", "\U0001f600", "a\tb", '"q"', "x,y", "\u2028", "-"]


def rows(count: int) -> list[dict[str, Any]]:
    made = random.Random(7)
    return [
        {"id": i, "text": " ".join(made.choices(WORDS, k=made.randint(0, 60))), "tags": {"n": made.random()}}
        for i in range(count)
    ]


def packed(folder: Path, name: str, data: bytes) -> list[Path]:
    files = {name: data, name + ".gz": gzip.compress(data), name + ".zst": zstandard.compress(data)}
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return [folder / file for file in files]


def jsonl(count: int) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows(count))


def csv(count: int, delimiter: str = ",") -> bytes:
    lines = [f'{r["id"]}{delimiter}"{r["text"].replace(chr(34), chr(34) * 2)}\n more"\r\n' for r in rows(count)]
    return (f"id{delimiter}text\r\n" + "".join(lines)).encode()


def texts(count: int) -> bytes:
    return "".join(f"{row['text']}\r\n\n" for row in rows(count)).encode()


@pytest.mark.parametrize(
    ("name", "suffix", "make", "arguments"),
    [
        ("jsonl", ".jsonl", jsonl, {}),
        ("text", ".txt", texts, {}),
        ("text", ".md", texts, {"record": "line"}),
        ("csv", ".csv", csv, {}),
        ("csv", ".csv", csv, {"header": False}),
        ("csv", ".csv", lambda n: csv(n, ";"), {"delimiter": ";"}),
        ("csv", ".tsv", lambda n: csv(n, "|"), {"delimiter": "|"}),
    ],
)
def test_line_formats(tmp_path: Path, name: str, suffix: str, make: Any, arguments: Mapping[str, Any]) -> None:
    reader = registry.reader(name)
    for count in (0, 1, 60):
        files = packed(tmp_path, f"f{count}{suffix}", make(count))
        files += packed(tmp_path, f"bare{count}{suffix}", make(count).removesuffix(b"\n"))
        files += packed(tmp_path, f"bom{count}{suffix}", b"\xef\xbb\xbf\n" + make(count) + b"\n \r\n" * (name != "csv"))
        suite.check_reader(reader, files, arguments, part_bytes=(1, 1000))
        for size in (1, 1000, 1 << 20):
            suite.check_same_content(reader, files[:3], CutRule(part_bytes=size), arguments)


def table(count: int) -> pa.Table:
    made = pa.Table.from_pylist(rows(count), schema=pa.schema([("id", pa.int64()), ("text", pa.string()), TAGS]))
    return made.append_column(
        "kind", pa.array(["a" if i % 3 else None for i in range(count)], pa.string()).dictionary_encode()
    )


TAGS = pa.field("tags", pa.struct([("n", pa.float64())]))


@pytest.mark.parametrize("count", [0, 1, 90])
def test_parquet(tmp_path: Path, count: int) -> None:
    parquet.write_table(table(count), tmp_path / "a.parquet", row_group_size=23)
    parquet.write_table(table(count), tmp_path / "b.parquet", compression="zstd", use_dictionary=False)
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    suite.check_reader(registry.reader("parquet"), files)


@pytest.mark.parametrize("count", [0, 1, 90])
def test_arrow(tmp_path: Path, count: int) -> None:
    made = table(count)
    for name, new in (("a.arrow", pa.ipc.new_file), ("b.arrows", pa.ipc.new_stream)):
        with new(tmp_path / name, made.schema) as writer:
            writer.write_table(made, max_chunksize=17)
    feather.write_feather(made, tmp_path / "c.feather", compression="lz4", chunksize=50)
    suite.check_reader(registry.reader("arrow"), sorted(tmp_path.iterdir()))


def test_the_suite_sees_bad_readers(tmp_path: Path) -> None:
    """Negative control: a reader that counts from one, and one whose keys depend on the columns wanted."""
    (tmp_path / "a.jsonl").write_bytes(jsonl(50))
    good = registry.reader("jsonl")

    class Off:
        name, version, suffixes, arguments = "off", 1, (".jsonl",), ()
        whole, split, locate = good.whole, good.split, good.locate

        def read(self, path: Any, cut: Any, *rest: Any, **more: Any) -> Any:
            blocks = list(good.read(path, cut, *rest, **more))
            return blocks[1:] if cut.start else blocks

    class Keyless(Off):
        def read(self, path: Any, cut: Any, *rest: Any, **more: Any) -> Any:
            for block in good.read(path, cut, *rest, **more):
                if more.get("columns"):
                    block["@key"].values[:] = 0
                yield block

    for bad in (Off(), Keyless()):
        with pytest.raises(AssertionError):
            suite.check_reader(bad, [tmp_path / "a.jsonl"], part_bytes=(1000,))
