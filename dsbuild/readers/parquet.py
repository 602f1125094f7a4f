"""Apache Parquet, cut at row groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, final

from dsbuild import canon
from dsbuild.canon import Value
from dsbuild.interfaces import Argument, Cut, CutRule, CutTable, Skip
from dsbuild.readers import columnar
from dsbuild.readers.cutting import Cutter
from dsbuild.readers.decompress import PIECE, changed, opened
from dsbuild.readers.footer import Chunk, row_groups
from dsbuild.records import Records


@final
class Parquet:
    """Reads Parquet. Units of cuts: row groups. Columns of binary are ``bytes``, all others ``json``.

    A null field is ``MISSING``; values are as in ``readers.plain``, ``@key`` as in ``readers.columnar``. A cut's
    content is BLAKE3 of the schema and, for each row group, of its number of rows, codecs and stored bytes.
    """

    name = "parquet"
    version = 1
    suffixes = (".parquet",)
    arguments: tuple[Argument, ...] = ()

    def whole(self, path: Path, size: int, rule: CutRule) -> bool:
        """Never: the meaning of a row group needs the schema."""
        return False

    def split(self, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
        """Cut between row groups, counting stored bytes."""
        with _file(path) as (raw, file):
            schema = columnar.schema_text(file.schema_arrow)
            cutter = Cutter(canon.encode({"format": "parquet", "schema": schema}))
            for group in row_groups(raw):
                chunks = [[list(chunk.path), chunk.codec, chunk.size] for chunk in group.chunks]
                label = canon.encode({"rows": group.rows, "chunks": chunks})
                size = sum(chunk.size for chunk in group.chunks)
                data = (piece for chunk in group.chunks for piece in _stored(path, raw, chunk))
                cutter.take_unit(rule, label, data, size=size, records=group.rows, units=1)
            return CutTable(cuts=cutter.finish(), context={"schema": schema})

    def read(
        self,
        path: Path,
        cut: Cut,
        context: Mapping[str, Value],
        arguments: Mapping[str, Value],
        *,
        columns: frozenset[str] | None = None,
        skipped: list[Skip] | None = None,
    ) -> Iterator[Records]:
        """The records of a cut. All columns are read, for ``@key``; only ``columns`` are made."""
        with _file(path) as (_, file):
            stop = file.metadata.num_row_groups if cut.stop is None else cut.stop
            if stop > file.metadata.num_row_groups:
                raise changed(path, f"it has {file.metadata.num_row_groups} row groups, and {stop} were expected")
            groups = [file.metadata.row_group(i) for i in range(cut.start, stop)]
            row = max(sum(g.total_byte_size for g in groups) // max(sum(g.num_rows for g in groups), 1), 1)
            made = columnar.shape(file.schema_arrow, columns)
            batches = file.iter_batches(
                batch_size=max(min(columnar.ROWS, columnar.BLOCK_BYTES // row), 1),
                row_groups=list(range(cut.start, stop)),
                use_threads=False,
            )
            yield from columnar.blocks(path, batches, made, cut.first, skipped)

    def locate(
        self, path: Path, cut: Cut, context: Mapping[str, Value], arguments: Mapping[str, Value], record: int
    ) -> str:
        """ "row N", from 1."""
        return f"row {cut.first + record + 1}"


@contextmanager
def _file(path: Path) -> Iterator[tuple[BinaryIO, Any]]:
    """The open file, and it as a ``ParquetFile`` that reads pages in turn, so that large row groups fit."""
    columnar.need_pyarrow()
    import pyarrow as pa
    from pyarrow import parquet

    with opened(path) as raw, columnar.arrow_errors(path, "Parquet"), pa.OSFile(str(path)) as source:
        yield (
            raw,
            parquet.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True),
        )


def _stored(path: Path, raw: BinaryIO, chunk: Chunk) -> Iterator[bytes]:
    raw.seek(chunk.start)
    left = chunk.size
    while left:
        piece = raw.read(min(left, PIECE))
        if not piece:
            raise changed(path, "it ends inside a row group")
        left -= len(piece)
        yield piece
