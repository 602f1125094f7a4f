"""Source: the files of a source as derivations, one for each run of files that one reader serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsbuild import registry
from dsbuild.graph.chain import Mistakes
from dsbuild.graph.derivation import Derivation
from dsbuild.interfaces import CutRule
from dsbuild.recipe.lock import Lock, LockedFile, source_id
from dsbuild.recipe.types import Recipe, SourceSpec


def readers_of(recipe: Recipe, lock: Lock, spec: SourceSpec, mistakes: Mistakes) -> set[str]:
    """The readers of a source's files, with ``read = {…}`` held against each; what is wrong goes to ``mistakes``."""
    where = recipe.where("source", spec.name, "format" if spec.format else "files")
    found: dict[str, None] = {}
    try:
        known: dict[str, str] = {}
        for file in lock.files(spec.name, spec.files) if not spec.format else ():
            found.setdefault(_format_of(file.name, known))
        for served in (spec.format,) if spec.format else tuple(found):
            reader = registry.reader(served)
            found.setdefault(served)
            _, problems = registry.check_arguments(reader.arguments, spec.read)
            for name, message, hint in problems:
                place = recipe.where("source", spec.name, "read", *([name] if name else []))
                mistakes.add(f"source.{spec.name}.read: {served}: {message}", "bad-value", place, hint)
    except registry.UnknownPlugin as error:
        mistakes.add(f"source.{spec.name}: {error}", "unknown-reader", where, error.hint)
    return set(found)


def source_derivations(lock: Lock, spec: SourceSpec) -> list[Derivation]:
    """The derivations of a source's files, in order."""
    runs: list[tuple[str, list[LockedFile]]] = []
    known: dict[str, str] = {}
    for file in lock.files(spec.name, spec.files):
        served = spec.format or _format_of(file.name, known)
        if not runs or runs[-1][0] != served:
            runs.append((served, []))
        runs[-1][1].append(file)
    return [_derivation(spec, served, files) for served, files in runs]


def _derivation(spec: SourceSpec, served: str, files: Sequence[LockedFile]) -> Derivation:
    reader = registry.reader(served)
    checked, _ = registry.check_arguments(reader.arguments, spec.read)
    defaults = {a.name: a.default for a in reader.arguments}
    rule = CutRule(part_bytes=spec.part_bytes)
    arguments: dict[str, Any] = {"cut": {"version": rule.version, "part_bytes": rule.part_bytes}}
    read = {n: v for n, v in checked.items() if v != defaults.get(n)}
    if read:
        arguments["read"] = read
    if spec.on_error != "error":
        arguments["on_error"] = spec.on_error
    return Derivation(
        kind="source",
        builder=f"{reader.name}@{reader.version}",
        arguments=arguments,
        inputs=[source_id(f.id, f.name) for f in files],
    )


def _format_of(name: str, known: dict[str, str]) -> str:
    """``registry.format_of``, asked once for all names of like suffixes."""
    suffixes = name.rpartition("/")[2].partition(".")[2]
    found = known.get(suffixes)
    if found is None:
        found = known[suffixes] = registry.format_of(name)
    return found
