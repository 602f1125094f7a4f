"""World: what the lock would say now. Looks at files; reads those that the stat cache does not know."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dsbuild.digest import Digest
from dsbuild.errors import BuildError, Diagnostic, DsbuildError, RecipeError, Where
from dsbuild.recipe.content import hash_and_stat, read_and_stat
from dsbuild.recipe.locate import Found, place_of_file, search
from dsbuild.recipe.lock import (
    BUILTIN,
    Entry,
    Lock,
    LockedData,
    LockedFile,
    LockedLibrary,
    LockedSource,
    LockedTokenizer,
    source_id,
)
from dsbuild.recipe.statcache import StatCache
from dsbuild.recipe.table import shown
from dsbuild.recipe.types import Recipe, SourceSpec, TokenizerSpec

TOKENIZER_FILE = "tokenizer.json"
"""The file that is meant when ``[tokenizer] file`` names a directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFacts:
    """What only the tokenizer's engine knows: ``fingerprint``, ``size`` (number of ids), ids of ``tokens`` by text."""

    fingerprint: Digest
    size: int
    tokens: Mapping[str, int]


Probe = Callable[[TokenizerSpec, Path], TokenizerFacts]
"""(what the recipe says, the recipe's directory) -> facts. Raises ``RecipeError``; slow, so asked only if needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The present: a ``lock`` that describes it, source ``files`` by ``source_id``, ``data`` files' bytes by name."""

    lock: Lock
    files: Mapping[str, Found]
    data: Mapping[str, bytes]


@dataclass(slots=True)
class _Look:
    """One look at the world: entries, files and problems so far."""

    recipe: Recipe
    stats: StatCache
    entries: list[Entry] = field(default_factory=list)
    files: dict[str, Found] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def take(self, error: DsbuildError, where: Where) -> None:
        """Remember the problems of ``error`` at a place of the recipe, unless they have a line of their own."""
        for d in error.diagnostics:
            self.problems.append(d if d.where and d.where.line else replace(d, where=where))


def resolve(
    recipe: Recipe,
    probe: Probe,
    stat_cache: StatCache,
    libraries: Mapping[str, str],
    old: Lock | None = None,
) -> World:
    """The present world of ``recipe``.

    ``libraries``: the class of each library that matters, by name. ``old`` saves a call of ``probe`` where the
    tokenizer's file and its library are as locked. Raises ``RecipeError`` with all problems (``no-match``,
    ``no-such-file``, ``not-a-file``, ``unreadable``, ``bad-name``, ``bad-tokenizer``), or ``BuildError`` where files
    changed while they were read and nothing else was wrong.
    """
    look = _Look(recipe, stat_cache)
    for source in recipe.sources.values():
        if source.files:
            _look_at_source(look, source)
        _look_at_data(look, source)
    if recipe.tokenizer is not None:
        _look_at_tokenizer(look, recipe.tokenizer, probe, libraries, old)
    look.entries += [LockedLibrary(name=name, version_class=text) for name, text in libraries.items()]
    if look.problems:
        only_changed = all(d.kind == "source-changed" for d in look.problems)
        raise (BuildError if only_changed else RecipeError)(diagnostics=look.problems)
    return World(lock=Lock.of(look.entries), files=look.files, data=look.data)


def _look_at_source(look: _Look, source: SourceSpec) -> None:
    found, problems = search(look.recipe, source)
    look.problems += problems
    look.entries.append(LockedSource(name=source.name, patterns=source.files))
    name = source.name
    for file in found:
        status = file.stat
        digest = look.stats.lookup(file.path, status)
        if digest is None:
            try:
                digest, status = _hash(look, file)
            except DsbuildError as error:
                look.take(error, place_of_file(look.recipe, source, source.files.index(file.pattern)))
                continue
            file = replace(file, stat=status)
        look.files[source_id(digest, file.name)] = file
        look.entries.append(
            LockedFile(source=name, pattern=file.pattern, name=file.name, id=digest, size=status.st_size)
        )


def _hash(look: _Look, file: Found) -> tuple[Digest, os.stat_result]:
    started = time.time_ns()
    digest, status = hash_and_stat(file.path, file.name)
    look.stats.remember(file.path, status, digest, started)
    return digest, status


def _look_at_data(look: _Look, source: SourceSpec) -> None:
    """Files that user Python reads: small by nature, so they are read whole, which a build needs anyway."""
    for number, handler in enumerate(source.handlers):
        for item, name in enumerate(handler.reads):
            if name in look.data:
                continue
            content = bytearray()
            try:
                digest, _ = read_and_stat(str(look.recipe.directory / name), name, content)
            except DsbuildError as error:
                look.take(error, look.recipe.where("source", source.name, "handlers", number, "reads", item))
                continue
            look.data[name] = bytes(content)
            look.entries.append(LockedData(name=name, id=digest, size=len(content)))


def _look_at_tokenizer(
    look: _Look, spec: TokenizerSpec, probe: Probe, libraries: Mapping[str, str], old: Lock | None
) -> None:
    try:
        found = _tokenizer_id(look, spec)
        facts = None if found == BUILTIN else _remembered(spec, found, libraries, old)
        facts = facts or probe(spec, look.recipe.directory)
    except DsbuildError as error:
        look.take(error, look.recipe.where("tokenizer", "file"))
        return
    texts = {"eos": spec.eos, "bos": spec.bos, "pad": spec.pad}
    tokens = {}
    for key, text in texts.items():
        if text is not None and text not in facts.tokens:
            where, hint = look.recipe.where("tokenizer", key), f"{key} is one token of the vocabulary, added as an id"
            message = f"tokenizer.{key}: {shown(text)} is not one token"
            look.problems.append(Diagnostic(message=message, kind="bad-tokenizer", where=where, hint=hint))
        elif text is not None:
            tokens[text] = facts.tokens[text]
    look.entries.append(
        LockedTokenizer(name=spec.file, id=found, fingerprint=facts.fingerprint, size=facts.size, tokens=tokens)
    )


def _tokenizer_id(look: _Look, spec: TokenizerSpec) -> str:
    if spec.file == "bytes":
        return BUILTIN
    path = look.recipe.directory.absolute() / spec.file
    if path.is_dir():
        path /= TOKENIZER_FILE
    try:
        status = path.stat()
        digest = look.stats.lookup(str(path), status)
    except OSError:
        digest = None  # the hashing below says what is wrong
    if digest is None:
        started = time.time_ns()
        digest, status = hash_and_stat(str(path), _name_of(spec, path))
        look.stats.remember(str(path), status, digest, started)
    return f"b3:{digest.hex}"


def _name_of(spec: TokenizerSpec, path: Path) -> str:
    return spec.file if path.name == Path(spec.file).name else f"{spec.file.rstrip('/')}/{path.name}"


def _remembered(
    spec: TokenizerSpec, found: str, libraries: Mapping[str, str], old: Lock | None
) -> TokenizerFacts | None:
    """What the old lock knows of the very same file under the same class of library."""
    locked = None if old is None else old.tokenizer
    if old is None or locked is None or locked.id != found:
        return None
    same_class = old.libraries().get("tokenizers") == libraries.get("tokenizers")
    if not same_class or not _texts(spec) <= set(locked.tokens):
        return None
    return TokenizerFacts(fingerprint=locked.fingerprint, size=locked.size, tokens=locked.tokens)


def _texts(spec: TokenizerSpec) -> set[str]:
    wanted: Iterable[str | None] = (spec.eos, spec.bos, spec.pad)
    return {text for text in wanted if text is not None}
