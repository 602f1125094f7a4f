"""Origins: which sources have records of the same files, by their content in the lock, so that leaks are loud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dsbuild import canon
from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.graph.chain import Mistakes
from dsbuild.graph.derivation import Derivation, parse
from dsbuild.recipe.leaks import Leak, Origins, leaks, spread
from dsbuild.recipe.lock import Lock
from dsbuild.recipe.types import Recipe, SourceSpec

Contents = Mapping[str, Iterable[str]]
"""Ids of files by the kind of their reading, which decides the records and so their split keys."""

_EMPTY = f"b3:{of_bytes(Domain.FILE, b'').hex}"


def check_leaks(
    recipe: Recipe,
    lock: Lock,
    files: Mapping[str, Sequence[Derivation]],
    lookup: Callable[[Digest], bytes | None],
    mistakes: Mistakes,
) -> None:
    """Remember each source through which a mixture sees files that another mixture sees too, as ``recipe.leaks`` says.

    ``files``: the ``source`` derivations of each source that reads files. Files without content have nothing to leak.
    """
    if len(recipe.mixtures) < 2:
        return
    contents = {name: _contents(found) for name, found in files.items()}
    for name in {i for s in recipe.sources.values() for i in s.inputs if i not in recipe.sources}:
        contents[name] = _contents(_ends(Digest.parse(name.removeprefix("drv:")), lookup))
    origins = _origins(contents)
    for leak in leaks(recipe.sources, recipe.mixtures, spread(recipe.sources, lambda base: origins[base])):
        message = f"{'.'.join(map(str, leak.place))}: {leak.message(_shared_file(recipe, lock, contents, leak))}"
        mistakes.add(message, "leak", recipe.where_key(*leak.place), leak.hint)


def _contents(derivations: Iterable[Derivation]) -> Contents:
    found: dict[str, set[str]] = {}
    for derivation in derivations:
        if derivation.kind == "source":
            read = canon.encode(derivation.arguments.get("read", {})).decode("utf-8")
            ids = {text.partition(".")[0] for text in derivation.inputs} - {_EMPTY}
            found.setdefault(f"{derivation.name} {read}", set()).update(ids)
    return found


def _ends(digest: Digest, lookup: Callable[[Digest], bytes | None]) -> list[Derivation]:
    """The derivations that a node of another recipe rests on, as far as the store has them."""
    seen: dict[Digest, Derivation] = {}
    stack = [digest]
    while stack:
        at = stack.pop()
        data = lookup(at) if at not in seen else None
        if data is not None:
            seen[at] = parse(data)
            stack += seen[at].references()
    return list(seen.values())


def _origins(contents: Mapping[str, Contents]) -> dict[str, Origins]:
    """Bits for each base of ``contents``: one for all files that the same bases have, so that many files are few."""
    owners: dict[str, list[str]] = {}
    for base, kinds in contents.items():
        for text in set().union(*kinds.values()):
            owners.setdefault(text, []).append(base)
    bits: dict[tuple[str, ...], int] = {}
    of_file = {t: bits.setdefault(tuple(o), 1 << len(bits)) for t, o in owners.items() if len(o) > 1}
    found: dict[str, Origins] = {}
    for base, kinds in contents.items():
        mine: dict[str, int] = {}
        for kind, texts in kinds.items():
            for bit in {of_file[t] for t in texts if t in of_file}:
                mine[kind] = mine.get(kind, 0) | bit
        found[base] = mine
    return found


def _shared_file(recipe: Recipe, lock: Lock, contents: Mapping[str, Contents], leak: Leak) -> str:
    """A file that the two sources of ``leak`` have in common, for people, by its names in the lock."""
    bases, others = _bases(recipe, leak.source), _bases(recipe, leak.through)
    ids = set().union(*(texts for b in bases for texts in contents[b].values()))
    ids &= set().union(*(texts for b in others for texts in contents[b].values()))
    for base in sorted(bases):
        for file in lock.of_source(base):
            if f"b3:{file.id.hex}" in ids:
                names = {f.name for other in others for f in lock.of_source(other) if f.id == file.id} - {file.name}
                return f" ({file.name}{f' is its {min(names)}' if names else ''})"
    return ""


def _bases(recipe: Recipe, source: SourceSpec) -> set[str]:
    """The sources with files, and the nodes of other recipes, that ``source`` comes from."""
    found, stack = {source.name}, [source.name]
    while stack:
        name = stack.pop()
        inputs = recipe.sources[name].inputs if name in recipe.sources else ()
        stack += [i for i in inputs if i not in found]
        found |= set(inputs)
    return {n for n in found if n not in recipe.sources or not recipe.sources[n].inputs}
