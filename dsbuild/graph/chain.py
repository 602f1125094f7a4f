"""Chain: the handlers of one source, checked against the registry and turned into derivations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsbuild import registry
from dsbuild.digest import Digest
from dsbuild.errors import Diagnostic, DsbuildError, Where
from dsbuild.graph.derivation import ON_ERROR, Derivation
from dsbuild.interfaces import Effect, Facts, Handler, Resources
from dsbuild.recipe.code import UserCode, load_code
from dsbuild.recipe.types import HandlerSpec, Recipe

PYTHON = "python"
"""The built-in handler that runs user Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One handler of a chain: its hashed form and what it does to columns."""

    builder: str
    arguments: Mapping[str, Any]
    effect: Effect
    where: Where
    code: UserCode | None = None

    def derivation(self, previous: str, *, skip: bool) -> Derivation:
        """The handler's derivation after the derivation digest ``previous`` (text).

        ``skip``: records that it refuses are left out (the source's ``on_error``), which is part of what it does.
        """
        arguments = {**self.arguments, ON_ERROR: "skip"} if skip else self.arguments
        return Derivation(kind="handler", builder=self.builder, arguments=arguments, inputs=[previous])


@dataclass(slots=True)
class Mistakes:
    """Diagnostics gathered so that one run shows them all."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, message: str, kind: str, where: Where, hint: str | None = None) -> None:
        """Remember one mistake."""
        self.found.append(Diagnostic(message=message, kind=kind, where=where, hint=hint))

    def take(self, error: DsbuildError, where: Where) -> None:
        """Remember the mistakes of ``error``, at ``where`` if they name no place."""
        for d in error.diagnostics:
            self.found.append(d if d.where else Diagnostic(message=d.message, kind=d.kind, where=where, hint=d.hint))


def link_chain(
    recipe: Recipe,
    source: str,
    handlers: Sequence[HandlerSpec],
    facts: Facts,
    data: Mapping[str, str],
    mistakes: Mistakes,
) -> tuple[Link, ...]:
    """The links of ``handlers``; those with mistakes are left out and their mistakes remembered.

    ``data``: locked id of each file that a handler ``reads``, by its name in the recipe.
    """
    links = []
    for number, spec in enumerate(handlers):
        where = recipe.where("source", source, "handlers", number, "use")
        link = _link(recipe, spec, where, ("source", source, "handlers", number), facts, data, mistakes)
        if link is not None:
            links.append(link)
    return tuple(links)


def check_handlers(recipe: Recipe) -> list[Diagnostic]:
    """The mistakes in handlers that show without a lock: names, arguments, Python."""
    mistakes = Mistakes()
    known = Facts(seed=0, tokenizer=Digest(bytes(32)), vocabulary=1, eos=0, bos=0)
    data = {name: "" for s in recipe.sources.values() for h in s.handlers for name in h.reads}
    for source in recipe.sources.values():
        link_chain(recipe, source.name, source.handlers, known, data, mistakes)
    return mistakes.found


def _link(
    recipe: Recipe,
    spec: HandlerSpec,
    where: Where,
    path: tuple[str | int, ...],
    facts: Facts,
    data: Mapping[str, str],
    mistakes: Mistakes,
) -> Link | None:
    code: UserCode | None = None
    arguments: Mapping[str, Any] = spec.arguments
    try:
        if spec.python is not None:
            code = load_code(recipe.directory, *spec.python, spec.requires)
            cls: type[Handler] = registry.handler(PYTHON)
            misfits = _misfits(spec, code)
            for misfit in misfits:
                mistakes.add(f"{spec.use}: {misfit}", "bad-value", where)
            if misfits:
                return None
            arguments = python_arguments(spec, code, facts, data)
        else:
            cls = registry.handler(spec.use)
            checked, problems = registry.check_arguments(cls.arguments, spec.arguments)
            for name, message, hint in problems:
                mistakes.add(
                    f"{spec.use}: {message}", "bad-value", recipe.where(*path, *([name] if name else [])), hint
                )
            if problems:
                return None
            arguments = checked
        resolved = cls.resolve(arguments, facts)
        made = cls(resolved, Resources())  # type: ignore[call-arg]
        return Link(
            builder=f"{cls.name}@{cls.version}", arguments=resolved, effect=made.effect(), where=where, code=code
        )
    except DsbuildError as error:
        mistakes.take(error, where)
    except registry.UnknownPlugin as error:
        mistakes.add(f"{spec.use}: no such handler", "unknown-handler", where, error.hint)
    except ValueError as error:
        mistakes.add(f"{spec.use}: {error}", "bad-value", where)
    return None


def _misfits(spec: HandlerSpec, code: UserCode) -> list[str]:
    """What the function does not take of what the recipe gives it, and what it needs and is not given."""
    given = set(spec.arguments) | ({"reads"} if spec.reads else set())
    unknown = sorted(given - code.accepts) if code.accepts is not None else []
    missing = sorted(code.demands - given)
    return [f"the function takes no argument '{n}'" for n in unknown] + [f"the function needs '{n}'" for n in missing]


def python_arguments(spec: HandlerSpec, code: UserCode, facts: Facts, data: Mapping[str, str]) -> Mapping[str, Any]:
    """The arguments of the ``python`` handler, before ``resolve``: code, data files and packages by digest."""
    found: dict[str, Any] = {"code": code.digest.hex, "entry": code.entry}
    if spec.arguments:
        found["arguments"] = spec.arguments
    if spec.requires:
        found["requires"] = {name: facts.libraries[name] for name in spec.requires if name in facts.libraries}
    if spec.reads:
        found["reads"] = {name: data[name] for name in spec.reads}
    if code.unicode:
        found["unicode"] = facts.libraries.get("unicode", "")
    return found
