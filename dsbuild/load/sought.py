"""Sought: the source and the file that a caller means, by name, by number or by the first digits of a digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsbuild.errors import NotFoundError
from dsbuild.load.provenance import File, Known, Lineage, lineage_of, records_of
from dsbuild.load.source import Source
from dsbuild.recipe.suggest import did_you_mean
from dsbuild.store.names import printable

if TYPE_CHECKING:
    from dsbuild.load.dataset import Dataset

_SHOWN = 5


def called(view: Source, told: Known) -> str:
    """What people call a source."""
    return told.source(view.digest) or view.digest.short


def sought(dataset: Dataset, source: str, file: str | int | None, told: Known) -> tuple[int, Lineage, File]:
    """(number of the source, its lineage, the file) that ``source`` and ``file`` mean. Raises ``NotFoundError``."""
    number = source_number(dataset, source, told)
    view = dataset.sources[number]
    lineage = lineage_of(dataset.store, records_of(dataset.store, view.digest))
    return number, lineage, file_of(lineage, file, told, called(view, told))


def source_number(dataset: Dataset, source: str, told: Known) -> int:
    """Which of the dataset's sources ``source`` names: its name, or the first digits of its view's digest.

    Raises ``NotFoundError``, kind ``ambiguous`` where it fits several.
    """
    wanted = source.removeprefix("source.")
    by_name = {called(view, told): at for at, view in enumerate(dataset.sources)}
    if wanted in by_name:
        return by_name[wanted]
    found = [at for at, view in enumerate(dataset.sources) if wanted and view.digest.hex.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(sorted(by_name)[:_SHOWN]) + (", …" if len(by_name) > _SHOWN else "")
    raise NotFoundError(
        f"source '{printable(source)}': {f'fits {len(found)} sources of' if found else 'not in'} mixture "
        f"'{dataset.split}', which has {shown}",
        kind="ambiguous" if found else "not-found",
        hint=did_you_mean(wanted, by_name) or "'dsbuild show HASH' lists the sources of each mixture",
    )


def file_of(lineage: Lineage, file: str | int | None, told: Known, source: str) -> File:
    """The file that ``file`` names: its number in the source's list, its name, or how its content id begins.

    None = the only one. Raises ``NotFoundError``, kind ``ambiguous`` where several fit.
    """
    count = len(lineage)
    what = f"source '{source}' has {count} file{'' if count == 1 else 's'}"
    if file is None:
        if count == 1:
            return lineage.file(0, told)
        raise NotFoundError(f"{what}: say which", kind="ambiguous", hint=_choices(lineage, told, range(count)))
    found = _fitting(lineage, file, told) if isinstance(file, str) else [file] if 0 <= file < count else []
    if len(found) == 1:
        return lineage.file(found[0], told)
    shown = f"'{printable(file)}'" if isinstance(file, str) else str(file)
    if found:
        hint = _choices(lineage, told, found)
        raise NotFoundError(f"file {shown}: {len(found)} files fit", kind="ambiguous", hint=hint)
    meant = did_you_mean(file, (name for _, name in lineage.names(told))) if isinstance(file, str) else None
    raise NotFoundError(
        f"file {shown}: {what}, none of that name, number or content",
        kind="not-found",
        hint=meant or _choices(lineage, told, range(count)),
    )


def _fitting(lineage: Lineage, file: str, told: Known) -> list[int]:
    """The files of the name ``file``; else that of its number; else those whose content ids begin so."""
    found = [ordinal for ordinal, name in lineage.names(told) if name == printable(file)]
    if not found and file.isascii() and file.isdigit() and len(file) < 16 and int(file) < len(lineage):
        return [int(file)]
    start = f"b3:{file.lower().removeprefix('b3:')}"
    return found or [ordinal for ordinal, text in enumerate(lineage.ids()) if file and text.startswith(start)]


def _choices(lineage: Lineage, told: Known, ordinals: Sequence[int]) -> str:
    files = [lineage.file(n, told) for n in ordinals[:_SHOWN]]
    shown = ", ".join(f"{f.ordinal} ({f.name or f.id[:15]})" for f in files)
    return f"by name, number or content id: {shown}{', …' if len(ordinals) > _SHOWN else ''}"
