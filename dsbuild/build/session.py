"""Session: a recipe in its world (lock, graph, files found here), ready to be built.

Safe against silent staleness because the lock is compared with the world before every build: a difference is an error
that lists itself, unless the caller accepts it by name.
"""

from __future__ import annotations

import platform
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dsbuild import registry
from dsbuild.build.work import Work
from dsbuild.digest import Digest
from dsbuild.errors import Diagnostic, DsbuildError, LockError, MachineError, RecipeError, Where
from dsbuild.graph import Instance, check_handlers, instantiate
from dsbuild.recipe import (
    Found,
    Lock,
    Recipe,
    StatCache,
    TokenizerFacts,
    compare,
    lock_error,
    lock_path,
    merge,
    read_lock,
    read_recipe,
    resolve,
    write_lock,
)
from dsbuild.recipe.code import load_code
from dsbuild.recipe.types import HandlerSpec, TokenizerSpec
from dsbuild.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """``notes``: what people should hear. ``files``: source files by ``source_id``; empty if nobody looked at them."""

    recipe: Recipe
    lock: Lock
    instance: Instance
    files: Mapping[str, Found] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> Digest:
        """The recipe's hash."""
        return self.instance.graph.output

    @property
    def python(self) -> tuple[str, ...]:
        """The user Python that a build runs, for people."""
        return tuple(
            f"{code.entry} with {', '.join(sorted(code.modules))}" for _, code in sorted(self.instance.code.items())
        )

    def work(self, store: Store) -> Work:
        """What workers do for this recipe, with the files and code that they need by digest."""
        spec = self.recipe.tokenizer
        tokenizers: dict[str, tuple[str, str]] = {}
        if spec is not None and self.lock.tokenizer is not None:
            path = spec.file if spec.file == "bytes" else str((self.recipe.directory / spec.file).resolve())
            tokenizers[self.lock.tokenizer.fingerprint.hex] = (path, self.lock.tokenizer.id)
        return Work(store.root.resolve(), tokenizers, self.instance.code, self.data)


def prepare(
    path: Path,
    *,
    store: Store | None = None,
    update: tuple[str, ...] | None = None,
    locked: bool = False,
    touch: bool = True,
    write: bool = True,
) -> Session:
    """Read the recipe and its lock, compare the lock with the world, and instantiate.

    ``update``: names whose changes are accepted (empty = all, None = none). ``touch`` False: with a lock, nothing but
    the recipe, its Python and the lock is read. ``write`` False: a new lock stays in memory. Raises ``RecipeError``
    with all mistakes, ``LockError`` with all differences.
    """
    recipe = check_recipe(path)
    at = lock_path(recipe.path)
    old = read_lock(at) if at.exists() else None
    if old is None and locked:
        raise LockError(f"{at}: no lock", kind="missing-lock", hint=f"'dsbuild lock {path}' makes it")
    lookup = (lambda _: None) if store is None else store.derivation
    if old is not None and not touch and update is None and old.covers_recipe(recipe):
        return Session(recipe=recipe, lock=old, instance=instantiate(recipe, old, lookup))
    stats = StatCache(None if store is None else store.cache_directory())
    try:
        world = resolve(recipe, probe, stats, libraries(recipe), old)
    except RecipeError as error:
        raise _all_mistakes(recipe, error) from None
    finally:
        stats.save()
    lock, notes = _settle(recipe, old, world.lock, update)
    # before the lock is written: a wrong recipe leaves no file behind. The world is as locked but for names and
    # patterns, which no hash sees, so it stands for the lock here
    instance = instantiate(recipe, _with_classes(world.lock, lock), lookup)
    if lock != old and write:
        write_lock(at, lock)
        notes.append(f"{'wrote' if old is None else 'updated'} {at}")
    return Session(recipe=recipe, lock=lock, instance=instance, files=world.files, data=world.data, notes=tuple(notes))


def check_recipe(path: Path) -> Recipe:
    """The recipe at ``path``. Raises ``RecipeError`` with its mistakes and those of the files and handlers it names."""
    recipe, mistakes = read_recipe(path)
    if mistakes is not None:
        raise _all_mistakes(recipe, mistakes)
    return recipe


def _all_mistakes(recipe: Recipe, found: RecipeError) -> RecipeError:
    """``found`` with the mistakes that a look at files, tokenizer and handlers shows too, each once."""
    diagnostics = list(found.diagnostics)
    try:
        resolve(recipe, probe, StatCache(None), {}, None)
    except DsbuildError as error:
        diagnostics += error.diagnostics
    except (LookupError, ValueError, TypeError, OSError):
        pass  # what is half read may not be looked at further
    diagnostics += check_handlers(recipe)
    return RecipeError(diagnostics=dict.fromkeys(diagnostics))


def _settle(recipe: Recipe, old: Lock | None, new: Lock, update: tuple[str, ...] | None) -> tuple[Lock, list[str]]:
    """The lock to build by, and what to tell people. Raises ``LockError`` for differences that nobody accepted."""
    if old is None:
        return new, []
    accepted = old if update is None else merge(old, new, update)
    used = set(libraries(recipe, used=True))
    changes = [
        c
        for c in compare(_with_tokens(accepted, new), _with_tokens(new, accepted))
        if c.entry != "library" or c.name in used
    ]
    wrong = [c for c in changes if c.kind != "moved"]
    if wrong and all(c.entry == "library" and c.kind == "changed" for c in wrong):
        raise MachineError(
            diagnostics=[
                Diagnostic(
                    message=f"{c.name}: this machine has class {c.new_id}, the lock says {c.old_id}",
                    kind="library-class",
                    where=Where(path=str(lock_path(recipe.path))),
                    hint=f"install {c.name} {c.old_id}, or accept this one with "
                    f"'dsbuild lock {recipe.path} --update {c.group}'",
                )
                for c in wrong
            ]
        )
    if wrong:
        raise lock_error(recipe, wrong)
    return accepted, [f"{c.old_name} is {c.name} now, with the same content" for c in changes if c.old_name]


def update_lock(path: Path, names: tuple[str, ...], store: Store | None = None) -> tuple[Path, tuple[str, ...]]:
    """Accept the changes of ``names`` alone (all if empty): (the lock, what still differs, for people).

    Raises ``NotFoundError`` without a lock, and as ``prepare``.
    """
    recipe = check_recipe(path)
    at = lock_path(recipe.path)
    old = read_lock(at)
    stats = StatCache(None if store is None else store.cache_directory())
    new = resolve(recipe, probe, stats, libraries(recipe), old).lock
    stats.save()
    accepted = merge(old, new, names)
    write_lock(at, accepted)
    left = [c for c in compare(accepted, new) if c.kind != "moved"]
    return at, tuple(d.message for d in lock_error(recipe, left).diagnostics) if left else ()


def _with_classes(world: Lock, lock: Lock) -> Lock:
    """``world`` with the classes of libraries as ``lock`` has them: those of this machine that differ are not used."""
    mine = {entry.name: entry for entry in world.library_classes}
    theirs = {entry.name: entry for entry in lock.library_classes}
    return replace(world, library_classes=tuple((mine | theirs).values()))


def _with_tokens(lock: Lock, new: Lock) -> Lock:
    """``lock`` with the ids of tokens that the recipe names now: facts of the same tokenizer, not of the world."""
    old, now = lock.tokenizer, new.tokenizer
    if old is None or now is None or old.fingerprint != now.fingerprint:
        return lock
    return replace(lock, tokenizer=replace(old, tokens={**old.tokens, **now.tokens}))


def probe(spec: TokenizerSpec, directory: Path) -> TokenizerFacts:
    """What the lock says of a tokenizer; loads it."""
    wanted = [t for t in (spec.eos, spec.bos, spec.pad) if t is not None]
    found = registry.probe_tokenizer(spec.file, directory, wanted)
    return TokenizerFacts(fingerprint=found.fingerprint, size=found.size, tokens=found.tokens)


def libraries(recipe: Recipe, *, used: bool = False) -> dict[str, str]:
    """The class of each library that can change what this recipe's handlers make, here and now.

    ``used``: only those that do, as the recipe and its Python stand; the others are locked for the day they will.
    """
    found = {}
    if recipe.tokenizer is not None and recipe.tokenizer.file != "bytes":
        found["tokenizers"] = ".".join(_version("tokenizers").split(".")[:2])
    handlers = [h for s in recipe.sources.values() for h in s.handlers if h.python is not None or h.use == "keep"]
    for name in sorted({r for h in handlers for r in h.requires}):
        found[name] = ", ".join(f"{n} {v}" for n, v in sorted(_closure(name).items()))
    if any(_needs_unicode(h, recipe.directory) for h in handlers) if used else handlers:
        found["unicode"] = unicodedata.unidata_version
    return found


def _closure(name: str) -> dict[str, str]:
    """The version of package ``name`` and of all that it needs, as they are installed here."""
    import importlib.metadata

    found: dict[str, str] = {}
    todo = [name]
    while todo:
        at = todo.pop()
        key = re.sub(r"[-_.]+", "-", at).lower()
        if key in found:
            continue
        try:
            found[key] = _version(at)
        except MachineError:
            if at == name:
                raise
            continue  # a need of another platform or extra
        needs = importlib.metadata.requires(at) or []
        todo += [m[0] for n in needs if "extra ==" not in n and (m := re.match(r"[A-Za-z0-9._-]+", n))]
    return found


def _needs_unicode(handler: HandlerSpec, directory: Path) -> bool:
    """Whether what ``handler`` makes depends on the Unicode database of the Python that runs it."""
    if handler.python is None:
        return handler.use == "keep" and any(w in str(handler.arguments.get("where")) for w in ("lower", "upper"))
    try:
        return load_code(directory, *handler.python, handler.requires).unicode
    except DsbuildError:
        return False  # instantiate tells of it, with its place


def _version(name: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise MachineError(
            f"{name}: not installed on this machine ({platform.python_version()})",
            kind="missing-library",
            hint=f"pip install {name}",
        ) from None
