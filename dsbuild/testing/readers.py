"""The conformance suite of the door ``interfaces.Reader``: functions that take a reader and files, and assert.

For authors of readers: call ``check_reader`` in a test with some files of your format (empty, small, and one of a few
hundred records), ``check_bad_file`` with damaged ones, ``check_same_content`` with encodings of the same records.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dsbuild import canon
from dsbuild.canon import Value
from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import DsbuildError
from dsbuild.interfaces import Argument, Cut, CutRule, CutTable, Reader, Skip
from dsbuild.records import Records
from dsbuild.schema import KEY, RECORD

PART_BYTES = (1, 97, 1000, 20_000, 64 << 20)
"""Sizes of parts that files are cut at."""

Row = tuple[int, dict[str, Any]]
"""A record as the suite compares it: its split key and its fields."""


def check_reader(
    reader: Reader,
    files: Iterable[Path],
    arguments: Mapping[str, Value] | None = None,
    *,
    part_bytes: Sequence[int] = PART_BYTES,
) -> None:
    """All laws of readers on each of ``files``, none of which may have a bad record."""
    check_attributes(reader)
    given = arguments or {}
    for path in files:
        whole = rows(reader, path, _one_cut(reader, path, given), given)
        for size in part_bytes:
            rule = CutRule(part_bytes=size)
            check_cuts(reader, path, rule, given)
            check_parts_equal_whole(reader, path, rule, given, whole)
        check_columns(reader, path, given)


def check_attributes(reader: Reader) -> None:
    """Name, version, suffixes and arguments are there, of the right types, on the class."""
    assert isinstance(reader, Reader), "the verbs of the door are missing"
    kind: Any = type(reader)
    assert isinstance(kind.name, str) and kind.name
    assert type(kind.version) is int and kind.version >= 1
    assert isinstance(kind.suffixes, tuple) and all(s.startswith(".") and s == s.lower() for s in kind.suffixes)
    assert isinstance(kind.arguments, tuple) and all(isinstance(a, Argument) for a in kind.arguments)


def cut_table(reader: Reader, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
    """The cuts of ``path`` as a build makes them: one, unread, where ``whole`` says so, else those of ``split``."""
    if reader.whole(path, path.stat().st_size, rule):
        content = of_bytes(Domain.FILE, path.read_bytes())
        return CutTable(cuts=(Cut(start=0, stop=None, first=0, content=content),))
    return reader.split(path, rule, arguments)


def check_cuts(reader: Reader, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> None:
    """Cuts touch each other, cover the file, count its records, are the same twice, and have a canonical context."""
    table = reader.split(path, rule, arguments)
    assert table == reader.split(path, rule, arguments), f"{path}: cut differently the second time"
    canon.encode(table.context)
    assert table.cuts, f"{path}: no cut"
    assert table.cuts[0].first == 0
    number = 0
    for i, cut in enumerate(table.cuts):
        assert isinstance(cut.content, Digest)
        assert cut.stop is not None or i == len(table.cuts) - 1, f"{path}: a cut without an end before the last"
        assert i == 0 or cut.start == table.cuts[i - 1].stop, f"{path}: cuts that do not touch"
        assert cut.first == number, f"{path}: a cut says it begins at record {cut.first}, and {number} stand before it"
        blocks = list(reader.read(path, cut, table.context, arguments))
        check_blocks(blocks)
        number += sum(len(block) for block in blocks)
        if blocks:
            assert reader.locate(path, cut, table.context, arguments, 0)


def check_blocks(blocks: Sequence[Records]) -> None:
    """Blocks without skipped records: not empty, with keys, and records numbered from 0."""
    number = 0
    for block in blocks:
        assert len(block) > 0, "an empty block"
        assert block.schema[KEY].dtype == "uint64" and block[KEY].values.dtype == "uint64"  # type: ignore[union-attr]
        assert block.schema[RECORD].dtype == "int64" and block[RECORD].values.dtype == "int64"  # type: ignore[union-attr]
        assert list(block[RECORD].values) == list(range(number, number + len(block))), "wrong numbers of records"
        number += len(block)


def check_parts_equal_whole(
    reader: Reader,
    path: Path,
    rule: CutRule,
    arguments: Mapping[str, Value],
    whole: Sequence[Row],
) -> None:
    """Parts read alone, in any order, are together the whole; each twice the same."""
    table = cut_table(reader, path, rule, arguments)
    parts = {i: rows(reader, path, _only(table, i), arguments) for i in reversed(range(len(table.cuts)))}
    found = [row for i in range(len(table.cuts)) for row in parts[i]]
    assert found == list(whole), f"{path}: parts of {rule.part_bytes} bytes are not the whole"
    assert rows(reader, path, _only(table, 0), arguments) == parts[0], f"{path}: read differently the second time"


def check_columns(reader: Reader, path: Path, arguments: Mapping[str, Value]) -> None:
    """With ``columns``: the same records and keys, those columns as before; a column that is nowhere is missing."""
    table = _one_cut(reader, path, arguments)
    whole = rows(reader, path, table, arguments)
    names = sorted({name for _, row in whole for name in row})
    for wanted in (frozenset[str](), frozenset(names[:1]), frozenset([*names, "no_such_column"])):
        found = rows(reader, path, table, arguments, columns=wanted)
        assert [key for key, _ in found] == [key for key, _ in whole], f"{path}: keys depend on the columns wanted"
        for (_, row), (_, full) in zip(found, whole, strict=True):
            assert {n: row[n] for n in row if n in wanted} == {n: full[n] for n in full if n in wanted}
        for block in _blocks(reader, path, table, arguments, columns=wanted):
            assert all(name in block.columns for name in wanted), f"{path}: a wanted column was not made"


def check_same_content(
    reader: Reader, files: Sequence[Path], rule: CutRule, arguments: Mapping[str, Value] | None = None
) -> None:
    """Files that hold the same records in encodings that do not count (compression) have equal cuts and records."""
    given = arguments or {}
    first = reader.split(files[0], rule, given)
    for path in files[1:]:
        table = reader.split(path, rule, given)
        assert [c.content for c in table.cuts] == [c.content for c in first.cuts], f"{path}: other content"
        assert table.context == first.context
        assert rows(reader, path, table, given) == rows(reader, files[0], first, given), f"{path}: other records"


def check_bad_file(
    reader: Reader,
    path: Path,
    arguments: Mapping[str, Value] | None = None,
    *,
    bad: Sequence[int] | None = None,
    survivors: int = 0,
) -> DsbuildError:
    """A damaged file is an error that names it, and pickles. ``bad``: numbers of its bad records.

    With ``bad`` a skipping read lists just those and gives the ``survivors``, under their true numbers; without it even
    a skipping read is an error. Returns the error, for further assertions.
    """
    given = arguments or {}
    error = _error(reader, path, given, None)
    assert path.name in str(error), f"an error that does not name the file: {error}"
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes of a moment ago
    assert type(copy) is type(error) and copy.diagnostics == error.diagnostics
    if bad is None:
        _error(reader, path, given, [])
        return error
    skipped: list[Skip] = []
    blocks = list(_blocks(reader, path, _one_cut(reader, path, given), given, skipped=skipped))
    numbers = [int(n) for block in blocks for n in block[RECORD].values]
    assert [skip.record for skip in skipped] == list(bad)
    assert all(skip.place and skip.reason for skip in skipped)
    assert len(numbers) == survivors and not set(numbers) & set(bad)
    assert sorted([*numbers, *bad]) == list(range(survivors + len(bad)))
    return error


def rows(
    reader: Reader,
    path: Path,
    table: CutTable,
    arguments: Mapping[str, Value],
    columns: frozenset[str] | None = None,
) -> list[Row]:
    """The records of all cuts of ``table``."""
    return [
        (int(key), block.row(i))
        for block in _blocks(reader, path, table, arguments, columns=columns)
        for i, key in enumerate(block[KEY].values)
    ]


def _blocks(
    reader: Reader,
    path: Path,
    table: CutTable,
    arguments: Mapping[str, Value],
    *,
    columns: frozenset[str] | None = None,
    skipped: list[Skip] | None = None,
) -> Iterable[Records]:
    for cut in table.cuts:
        yield from reader.read(path, cut, table.context, arguments, columns=columns, skipped=skipped)


def _one_cut(reader: Reader, path: Path, arguments: Mapping[str, Value]) -> CutTable:
    return cut_table(reader, path, CutRule(part_bytes=1 << 40), arguments)


def _only(table: CutTable, i: int) -> CutTable:
    return CutTable(cuts=table.cuts[i : i + 1], context=table.context)


def _error(reader: Reader, path: Path, arguments: Mapping[str, Value], skipped: list[Skip] | None) -> DsbuildError:
    try:
        for _ in _blocks(reader, path, _one_cut(reader, path, arguments), arguments, skipped=skipped):
            pass
    except DsbuildError as error:
        return error
    raise AssertionError(f"{path}: read without an error")
