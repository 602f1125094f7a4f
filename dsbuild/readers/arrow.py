"""Arrow IPC, file and stream format (``.arrow`` of either kind, ``.feather`` version 2), cut at record batches."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, final

from dsbuild import canon
from dsbuild.canon import Value
from dsbuild.digest import Digest, Domain, hasher
from dsbuild.interfaces import Argument, Cut, CutRule, CutTable, Skip
from dsbuild.readers import columnar
from dsbuild.readers.cutting import Cutter
from dsbuild.readers.decompress import PIECE, changed, opened
from dsbuild.readers.messages import BadMessage, Message, Ranges, is_file, messages
from dsbuild.records import Records


@final
class Arrow:
    """Reads Arrow IPC; columns and ``@key`` as in ``parquet``. Units of cuts: bytes, at borders of messages.

    Files are read as the streams that they contain. A cut's content is BLAKE3 of the schema, of the digest of the
    dictionaries before the cut, and of the bytes of its messages.
    """

    name = "arrow"
    version = 1
    suffixes = (".arrow", ".arrows", ".feather", ".ipc")
    arguments: tuple[Argument, ...] = ()

    def whole(self, path: Path, size: int, rule: CutRule) -> bool:
        """Never: the meaning of a batch needs the schema."""
        return False

    def split(self, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
        """Cut between record batches."""
        with _file(path) as file:
            found = list(messages(file))
            schema = _schema(path, file, found[0])
            _check_footer(file, sum(m.kind == "batch" for m in found))
            text = columnar.schema_text(schema)
            dictionaries = hasher(Domain.FILE)
            cutter = Cutter(_head(text, None), found[0].stop)
            for message in found[1:]:
                size = message.stop - message.start
                data = _bytes(path, file, message)
                if message.kind == "batch":
                    cutter.take_unit(rule, b"", data, size=size, records=message.rows, units=size)
                    continue
                for piece in data:
                    cutter.take(piece)
                    dictionaries.update(piece)
                cutter.head = _head(text, Digest(dictionaries.digest()))
            return CutTable(cuts=cutter.finish(), context={"schema": text})

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
        with _file(path) as file:
            from pyarrow import ipc

            walk = messages(file)
            first = next(walk)
            schema = _schema(path, file, first)
            ranges = [(first.start, first.stop)]
            if cut.start > first.stop and _has_dictionaries(schema):
                for message in walk:
                    if message.start >= cut.start:
                        break
                    if message.kind == "dictionary":
                        ranges.append((message.start, message.stop))
            start = max(cut.start, first.stop)
            size = file.seek(0, io.SEEK_END)
            if max(start, cut.stop or 0) > size:
                raise changed(path, f"it ends before byte {max(start, cut.stop or 0)}")
            ranges.append((start, size if cut.stop is None else cut.stop))
            with ipc.open_stream(Ranges(path, file, ranges)) as stream:
                made = columnar.shape(schema, columns)
                yield from columnar.blocks(path, stream, made, cut.first, skipped)

    def locate(
        self, path: Path, cut: Cut, context: Mapping[str, Value], arguments: Mapping[str, Value], record: int
    ) -> str:
        """ "row N", from 1."""
        return f"row {cut.first + record + 1}"


@contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    columnar.need_pyarrow()
    with opened(path) as file, columnar.arrow_errors(path, "Arrow IPC"):
        if file.read(4) == b"FEA1":
            raise BadMessage("feather version 1, which is not Arrow IPC; write it again as version 2")
        yield file


def _schema(path: Path, file: BinaryIO, message: Message) -> Any:
    from pyarrow import ipc, py_buffer

    return ipc.read_schema(py_buffer(b"".join(_bytes(path, file, message))))


def _bytes(path: Path, file: BinaryIO, message: Message) -> Iterator[bytes]:
    at = message.start
    while at < message.stop:
        file.seek(at)
        piece = file.read(min(message.stop - at, PIECE))
        if not piece:
            raise changed(path, f"it ends before byte {message.stop}")
        at += len(piece)
        yield piece


def _check_footer(file: BinaryIO, batches: int) -> None:
    """A file whose index tells of other batches than its stream has is not what its writer meant."""
    if is_file(file):
        from pyarrow import ipc

        file.seek(0)
        with ipc.open_file(file) as whole:
            listed = whole.num_record_batches
        if listed != batches:
            raise BadMessage(f"its index lists {listed} batches, and {batches} are there")


def _has_dictionaries(schema: Any) -> bool:
    from pyarrow import types

    stack = [field.type for field in schema]
    while stack:
        type_ = stack.pop()
        if types.is_dictionary(type_):
            return True
        if storage := getattr(type_, "storage_type", None):
            stack.append(storage)
        stack += [type_.field(i).type for i in range(type_.num_fields)]
    return False


def _head(schema: list[Value], dictionaries: Digest | None) -> bytes:
    return canon.encode(
        {"format": "arrow", "schema": schema, "dictionaries": None if dictionaries is None else dictionaries.hex}
    )
