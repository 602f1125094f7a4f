"""Instantiate: a recipe and its lock become a graph of derivations. Touches neither data nor network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dsbuild.digest import Digest
from dsbuild.errors import NotFoundError, RecipeError
from dsbuild.graph.chain import Link, Mistakes, link_chain
from dsbuild.graph.derivation import Derivation, Graph, parse
from dsbuild.graph.examples import check_alike, wanted
from dsbuild.graph.flow import ALL, Columns, needed_first, union
from dsbuild.graph.origins import check_leaks
from dsbuild.graph.source import readers_of, source_derivations
from dsbuild.graph.stream import Stream
from dsbuild.interfaces import Facts
from dsbuild.recipe.code import UserCode
from dsbuild.recipe.lock import Lock
from dsbuild.recipe.types import Recipe, SourceSpec
from dsbuild.schema import FIELDS, Field, Schema

Lookup = Callable[[Digest], bytes | None]
"""Canonical bytes of a derivation that a store has, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A graph, and what a build needs beside it: user code by digest, and the records nodes in order of need."""

    graph: Graph
    code: Mapping[str, UserCode]
    outputs: Mapping[str, Digest]


@dataclass(slots=True)
class _State:
    recipe: Recipe
    lock: Lock
    lookup: Lookup
    facts: Facts
    data: Mapping[str, str]
    mistakes: Mistakes = field(default_factory=Mistakes)
    derivations: dict[Digest, Derivation] = field(default_factory=dict)
    labels: dict[Digest, str] = field(default_factory=dict)
    code: dict[str, UserCode] = field(default_factory=dict)
    flows: dict[str, _Flow] = field(default_factory=dict)

    def add(self, derivation: Derivation, label: str | None = None) -> Digest:
        digest = derivation.digest
        self.derivations[digest] = derivation
        if label is not None:
            self.labels.setdefault(digest, label)
        return digest


@dataclass(slots=True)
class _Flow:
    """A source on its way: its links, the columns after them, who needs what of it (a mixture, too?), its files."""

    spec: SourceSpec
    links: tuple[Link, ...]
    columns: Columns
    users: int = 0
    mixed: bool = False
    needs: list[frozenset[str] | None] = field(default_factory=list)
    files: list[Derivation] = field(default_factory=list)
    open_end: Digest | None = None
    records: Digest | None = None


def instantiate(recipe: Recipe, lock: Lock, lookup: Lookup = lambda _: None) -> Instance:
    """The graph of ``recipe`` in the world that ``lock`` describes.

    ``lookup`` finds derivations of other recipes (``drv:``) so that their columns can be checked. Raises
    ``RecipeError`` with all mistakes.
    """
    state = _State(recipe=recipe, lock=lock, lookup=lookup, facts=_facts(recipe, lock), data=lock.data())
    order_of_need = _sorted_sources(recipe)
    for name in order_of_need:
        state.flows[name] = _flow(state, recipe.sources[name])
    _want(state)
    for name in reversed(order_of_need):
        _demand(state, state.flows[name])
    _raise(state.mistakes)
    for name in order_of_need:
        _derive(state, state.flows[name])
    files = {n: f.files for n, f in state.flows.items() if not f.spec.inputs}
    check_leaks(recipe, lock, files, lookup, state.mistakes)
    output = Stream(
        recipe=recipe,
        records={n: f.records for n, f in state.flows.items() if f.records is not None},
        pad=_pad_token(recipe, lock),
        add=state.add,
        mistakes=state.mistakes,
    ).derive()
    _raise(state.mistakes)
    full = Graph(derivations=state.derivations, labels=state.labels, output=output)
    kept = {d: state.derivations[d] for d in full.closure(output)}
    graph = Graph(derivations=kept, labels=state.labels, output=output)
    outputs = {n: f.records for n, f in state.flows.items() if f.records is not None and f.records in kept}
    return Instance(graph=graph, code=state.code, outputs=outputs)


def _facts(recipe: Recipe, lock: Lock) -> Facts:
    tokenizer, spec = lock.tokenizer, recipe.tokenizer
    if tokenizer is None or spec is None:
        return Facts(seed=recipe.seed, libraries=lock.libraries())
    return Facts(
        seed=recipe.seed,
        tokenizer=tokenizer.fingerprint,
        vocabulary=tokenizer.size,
        eos=None if spec.eos is None else tokenizer.tokens[spec.eos],
        bos=None if spec.bos is None else tokenizer.tokens[spec.bos],
        special=spec.special,
        libraries=lock.libraries(),
    )


def _pad_token(recipe: Recipe, lock: Lock) -> int | None:
    spec = recipe.tokenizer
    return None if spec is None or spec.pad is None or lock.tokenizer is None else lock.tokenizer.tokens[spec.pad]


def _raise(mistakes: Mistakes) -> None:
    if mistakes.found:
        raise RecipeError(diagnostics=dict.fromkeys(mistakes.found))


def _sorted_sources(recipe: Recipe) -> list[str]:
    """Source names, inputs before users, otherwise by name (cycles were refused when the recipe was read)."""
    seen: dict[str, None] = {}
    stack = sorted(recipe.sources, reverse=True)
    while stack:
        name = stack[-1]
        inputs = recipe.sources[name].inputs
        missing = [i for i in inputs if not i.startswith("drv:") and i not in seen] if name not in seen else []
        if missing:
            stack += reversed(missing)
        else:
            seen[stack.pop()] = None
    return list(seen)


def _flow(state: _State, spec: SourceSpec) -> _Flow:
    links = link_chain(state.recipe, spec.name, spec.handlers, state.facts, state.data, state.mistakes)
    for link in links:
        if link.code is not None:
            state.code[link.code.digest.hex] = link.code
    columns = _columns_in(state, spec)
    for link in links:
        for name in sorted(link.effect.needs or ()):
            if not columns.may_have(name):
                state.mistakes.add(
                    f"source.{spec.name}: {link.builder.partition('@')[0]} needs column '{name}', which is not there",
                    "missing-column",
                    link.where,
                    f"columns here: {', '.join(sorted({*columns.typed, *columns.untyped})) or 'none'}",
                )
        columns = columns.after(link.effect)
    return _Flow(spec=spec, links=links, columns=columns)


def _columns_in(state: _State, spec: SourceSpec) -> Columns:
    if not spec.inputs:
        formats = readers_of(state.recipe, state.lock, spec, state.mistakes)
        text = Columns(typed={"text": Field(name="text", dtype="text")}, open=False)
        return text if formats == {"text"} else Columns()
    known = [_columns_of_input(state, spec, name) for name in spec.inputs]
    first = known[0]
    typed = {n: f for n, f in first.typed.items() if all(k.typed.get(n) == f for k in known)}
    untyped = frozenset().union(*({*k.untyped, *k.typed} for k in known)) - set(typed)
    return Columns(typed=typed, untyped=untyped, open=any(k.open for k in known))


def _columns_of_input(state: _State, spec: SourceSpec, name: str) -> Columns:
    if not name.startswith("drv:"):
        return state.flows[name].columns
    data = state.lookup(Digest.parse(name[4:]))
    if data is None:
        raise NotFoundError(
            f"source.{spec.name}.from: {name[:16]}… is not in the store",
            kind="not-found",
            where=state.recipe.where("source", spec.name, "from"),
            hint="build the recipe that it belongs to into this store, or name its store with --store",
        )
    derivation = parse(data)
    if derivation.kind != "records":
        state.mistakes.add(
            f"source.{spec.name}.from: {name} is a {derivation.kind}, not stored records",
            "bad-value",
            state.recipe.where("source", spec.name, "from"),
            "'dsbuild show HASH' lists the records of a recipe with their hashes",
        )
        return Columns()
    schema = Schema.from_json(derivation.arguments["columns"])
    typed = {f.name: f for f in schema.fields if f.dtype != "json" and not f.name.startswith("@")}
    untyped = frozenset(f.name for f in schema.fields if f.dtype == "json" and not f.name.startswith("@"))
    return Columns(typed=typed, untyped=untyped, open=FIELDS in schema)


def _want(state: _State) -> None:
    """Adds to each flow's needs what mixtures want of it."""
    for mixture in state.recipe.mixtures.values():
        for name in mixture.sources:
            flow = state.flows[name]
            if not flow.mixed:
                flow.mixed = True
                flow.users += 1
                flow.needs.append(wanted(state.recipe, mixture, name, flow.columns, state.mistakes))
        check_alike(state.recipe, mixture, {n: state.flows[n].columns for n in mixture.sources}, state.mistakes)


def _demand(state: _State, flow: _Flow) -> None:
    """Passes what is needed of a chain, and what it needs itself, to its inputs."""
    first = needed_first([link.effect for link in flow.links], union(flow.needs))
    for name in flow.spec.inputs:
        if not name.startswith("drv:"):
            state.flows[name].users += 1
            state.flows[name].needs.append(first)


def _derive(state: _State, flow: _Flow) -> None:
    """Derivations of a source: its base, its chain, and its records where they are stored."""
    spec = flow.spec
    bases = _bases(state, flow)
    at = bases[0].hex if bases else ""
    if len(bases) != 1:
        joined = Derivation(kind="concatenation", builder="concatenation@1", inputs=[b.hex for b in bases])
        at = state.add(joined, f"source.{spec.name}").hex
    for link in flow.links:
        at = state.add(link.derivation(at, skip=spec.on_error == "skip"), f"source.{spec.name}").hex
    flow.open_end = Digest.parse(at)
    if flow.mixed or flow.users > 1:
        flow.records = _records(state, flow)


def _bases(state: _State, flow: _Flow) -> list[Digest]:
    """What the chain starts from: files, stored records, or the open end of a chain that only this source uses."""
    spec = flow.spec
    if spec.files:
        flow.files = source_derivations(state.lock, spec)
        return [state.add(d, f"source.{spec.name}") for d in flow.files]
    found = []
    for name in spec.inputs:
        if name.startswith("drv:"):
            found.append(Digest.parse(name[4:]))
        else:
            other = state.flows[name]
            digest = other.records or other.open_end
            assert digest is not None
            found.append(digest)
    return found


def _records(state: _State, flow: _Flow) -> Digest:
    needs = union(flow.needs)
    fields: dict[str, Field] = {}
    if needs is ALL:
        fields = dict(flow.columns.typed) | {FIELDS: Field(name=FIELDS, dtype="json")}
    else:
        for name in needs:
            fields[name] = flow.columns.typed.get(name) or Field(name=name, dtype="json")
    assert flow.open_end is not None
    derivation = Derivation(
        kind="records",
        builder="records@1",
        arguments={"columns": Schema.of(*fields.values()).as_json()},
        inputs=[flow.open_end.hex],
    )
    return state.add(derivation, f"source.{flow.spec.name}")


__all__ = ["Instance", "Lookup", "instantiate"]
