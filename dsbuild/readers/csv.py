"""CSV after RFC 4180: a header, rows of as many fields, quotes doubled inside quotes, line feeds inside quotes.

Ours and not the standard library's: that one has a limit on fields that is a global of the process, and it takes quotes
in the midst of unquoted fields, after which quotes no longer tell where records end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

from dsbuild.canon import Value
from dsbuild.errors import BuildError, RecipeError, Where
from dsbuild.interfaces import Argument, Cut, CutRule, CutTable, Skip
from dsbuild.readers import lines
from dsbuild.readers.decompress import is_compressed, with_compressed
from dsbuild.readers.faults import Fault, decode, excerpt
from dsbuild.readers.keys import split_keys
from dsbuild.readers.names import column_name
from dsbuild.readers.text import text_records
from dsbuild.records import Records

_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"')


@final
class Csv:
    """Reads CSV and TSV; every column is ``text``. ``@key``: of the bytes of the row as written, without its end.

    Blank lines are no records. Wrong quotes in a row of several lines can't be skipped. The context has the header (or
    numbered names) and the delimiter.
    """

    name = "csv"
    version = 1
    suffixes = (*with_compressed(".csv"), *with_compressed(".tsv"))
    arguments = (
        Argument(
            name="delimiter", type="text", doc="the character between fields; when absent ',', or a tab for .tsv files"
        ),
        Argument(
            name="header",
            type="boolean",
            doc="whether the first row names the columns; else they are c0, c1, ...",
            default=True,
        ),
    )

    def whole(self, path: Path, size: int, rule: CutRule) -> bool:
        """Small plain files are one cut; not ``.tsv``, whose delimiter has to be in the context."""
        return size <= rule.least and not is_compressed(path) and not _is_tsv(path)

    def split(self, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
        """Cut at ends of rows that their content chooses; the header belongs to the first cut and to every context."""
        delimiter = _delimiter(path, {}, arguments)
        form = _form(delimiter, arguments)
        cuts, header = lines.split(path, rule, form)
        names = _names(path, header if form.header else lines.header_of(path, form), delimiter, form.header)
        return CutTable(cuts=cuts, context={"columns": names, "delimiter": delimiter})

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
        """The records of a cut; ``columns`` that the header lacks are ``MISSING``.

        Without ``columns`` every name in the header must be able to name a column.
        """
        delimiter = _delimiter(path, context, arguments)
        form = _form(delimiter, arguments)
        if "columns" in context:
            names = [str(name) for name in context["columns"]]
        else:
            names = _names(path, lines.header_of(path, form), delimiter, form.header)
        if columns is None:
            _check_names(path, names)
        for found in lines.parsed(path, cut, form, _row(delimiter, len(names)), skipped):
            values = dict(zip(names, map(list, zip(*found.values, strict=True)), strict=True))
            yield text_records(values, split_keys(found.raw), found.numbers, columns)

    def locate(
        self, path: Path, cut: Cut, context: Mapping[str, Value], arguments: Mapping[str, Value], record: int
    ) -> str:
        """ "line N", where the row begins."""
        return lines.locate(path, cut, _form(_delimiter(path, context, arguments), arguments), record)


def fields(text: str, delimiter: str) -> list[str]:
    """The fields of one row. Raises ``Fault`` where quotes are not as in RFC 4180."""
    if '"' not in text:
        return text.split(delimiter)
    found = []
    at = 0
    while True:
        if text.startswith('"', at):
            match = _QUOTED.match(text, at)
            if match is None:
                raise _quotes("a quoted field that is not closed", text, at, final=True)
            found.append(match[1].replace('""', '"') if '""' in match[1] else match[1])
            end = match.end()
            if end < len(text) and text[end] != delimiter:
                raise _quotes("text after a closing quote", text, end)
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            quote = text.find('"', at, end)
            if quote >= 0:
                raise _quotes("a quote inside a field without quotes", text, quote)
            found.append(text[at:end])
        if end == len(text):
            return found
        at = end + 1


def _quotes(reason: str, text: str, at: int, *, final: bool = False) -> Fault:
    """A fault of quotes at character ``at``. In a row of several lines they may have taken rows that are not theirs."""
    final = final or "\n" in text
    hint = "put the field in quotes and double the quotes inside it"
    if final:
        hint += "; such a row is not skipped, because quotes no longer tell where the rows after it end"
    seen = f"'{excerpt(text, at)}'"
    return Fault(reason, detail=seen, at=len(text[:at].encode("utf-8")), hint=hint, final=final)


def _row(delimiter: str, width: int) -> Callable[[bytes], list[str]]:
    def parse(raw: bytes) -> list[str]:
        found = fields(decode(raw), delimiter)
        if len(found) != width:
            seen = f"'{excerpt(raw)}'"
            raise Fault(f"{_count(len(found))} where the header has {width}", detail=seen)
        return found

    return parse


def _count(size: int) -> str:
    return f"{size} field" + ("" if size == 1 else "s")


def _is_tsv(path: Path) -> bool:
    name = Path(path.stem) if is_compressed(path) else path
    return name.suffix.lower() == ".tsv"


def _delimiter(path: Path, context: Mapping[str, Value], arguments: Mapping[str, Value]) -> str:
    given = context.get("delimiter") or arguments.get("delimiter") or ("\t" if _is_tsv(path) else ",")
    if not isinstance(given, str) or len(given) != 1 or given in '"\r\n':
        hint = 'for example delimiter = ";", or "\\t" for a tab'
        raise RecipeError(
            f"delimiter {given!r}: not one character that can stand between fields", kind="bad-value", hint=hint
        )
    return given


def _form(delimiter: str, arguments: Mapping[str, Value]) -> lines.Form:
    blank = b" \t\r".replace(delimiter.encode("utf-8"), b"")
    return lines.Form(quoted=True, header=bool(arguments.get("header", True)), blank=blank)


def _names(path: Path, first: bytes | None, delimiter: str, header: bool) -> list[str]:
    """The names of the columns: the fields of the header, or numbered ones as many as the ``first`` row has."""
    if first is None:
        return []
    try:
        found = fields(decode(first), delimiter)
    except Fault as fault:
        raise _first_error(path, f"{fault.reason}: {fault.detail}", fault.kind) from None
    if not header:
        return [f"c{i}" for i in range(len(found))]
    if len(set(found)) < len(found):
        twice = next(name for i, name in enumerate(found) if name in found[:i])
        raise _first_error(path, f"two columns are named '{excerpt(twice)}'")
    return found


def _check_names(path: Path, names: Sequence[str]) -> None:
    for name in names:
        try:
            column_name(name)
        except Fault as fault:
            raise _first_error(path, f"{fault.reason}: {fault.detail}") from None


def _first_error(path: Path, what: str, kind: str = "bad-record") -> BuildError:
    hint = "mend it, or say read = { header = false } where it is data"
    return BuildError(f"{path}: the first row: {what}", kind=kind, where=Where(path=str(path), line=1), hint=hint)
