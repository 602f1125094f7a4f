"""Plain text: a record a file (``record = "file"``) or a line (``record = "line"``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

import numpy as np

from dsbuild.canon import Value
from dsbuild.interfaces import Argument, Cut, CutRule, CutTable, Skip
from dsbuild.readers import lines
from dsbuild.readers.cutting import Cutter
from dsbuild.readers.decompress import is_compressed, pieces, with_compressed
from dsbuild.readers.faults import Fault, Place, decode, settle
from dsbuild.readers.keys import split_keys
from dsbuild.records import MISSING, Column, Records
from dsbuild.schema import KEY, RECORD, Field, Schema

_FORM = lines.Form()


@final
class Text:
    """Reads text into one ``text`` column named ``text``.

    By file: the whole decoded content without a byte order mark, line ends as they are; an empty file has no record;
    a file is never cut; ``@key``: of that content. By line: lines without their ends; blank lines are no records;
    ``@key``: of the bytes of the line without its end.
    """

    name = "text"
    version = 1
    suffixes = with_compressed(".txt", ".md")
    arguments = (
        Argument(
            name="record",
            type="text",
            doc="what a record is: the whole file, or each line that is not blank",
            default="file",
            choices=("file", "line"),
        ),
    )

    def whole(self, path: Path, size: int, rule: CutRule) -> bool:
        """Small plain files are one cut in both modes."""
        return size <= rule.least and not is_compressed(path)

    def split(self, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
        """One cut by file; by line as in ``jsonl``."""
        if _by_line(arguments):
            return CutTable(cuts=lines.split(path, rule, _FORM)[0])
        cutter = Cutter()
        for piece in pieces(path):
            cutter.take(piece)
        return CutTable(cuts=cutter.finish())

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
        """The records of a cut; other ``columns`` than ``text`` are ``MISSING``."""
        if not _by_line(arguments):
            yield from _file(path, cut, columns, skipped)
            return
        for found in lines.parsed(path, cut, _FORM, decode, skipped):
            yield text_records({"text": found.values}, split_keys(found.raw), found.numbers, columns)

    def locate(
        self, path: Path, cut: Cut, context: Mapping[str, Value], arguments: Mapping[str, Value], record: int
    ) -> str:
        """ "line N", or "the file"."""
        return lines.locate(path, cut, _FORM, record) if _by_line(arguments) else "the file"


def text_records(
    values: Mapping[str, list[str]], keys: np.ndarray, numbers: np.ndarray, columns: frozenset[str] | None
) -> Records:
    """Records of ``text`` columns: those of ``columns`` (``MISSING`` where ``values`` has none), or all."""
    names = values if columns is None else (c for c in columns if not c.startswith("@"))
    fields = [Field(name=KEY, dtype="uint64"), Field(name=RECORD, dtype="int64")]
    made = {KEY: Column(values=keys), RECORD: Column(values=numbers)}
    for name in names:
        fields.append(Field(name=name, dtype="text"))
        made[name] = Column(values=values[name] if name in values else [MISSING] * len(keys))
    return Records(schema=Schema.of(*fields), columns=made)


def _by_line(arguments: Mapping[str, Value]) -> bool:
    return bool(arguments.get("record", "file") == "line")


def _file(path: Path, cut: Cut, columns: frozenset[str] | None, skipped: list[Skip] | None) -> Iterator[Records]:
    data = b"".join(pieces(path, cut.start, cut.stop))
    mark = lines.mark(path, data)
    content = data[mark:] if mark else data
    if not content:
        return
    try:
        text = decode(content)
    except Fault as fault:
        line = content.count(b"\n", 0, fault.at or 0) + 1
        place = Place(name="file", number=1, byte=mark)
        if skipped is None:
            place = Place(name="line", number=line, byte=mark)
        settle(path, place, cut.first, fault, skipped)
        return
    yield text_records({"text": [text]}, split_keys([content]), np.zeros(1, np.int64), columns)
