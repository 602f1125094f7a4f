"""Links between nodes: names that must exist, cycles, and records that could leak from one mixture to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dsbuild.recipe.suggest import did_you_mean
from dsbuild.recipe.table import Report, shown
from dsbuild.recipe.types import ExamplesSpec, MixtureSpec, SourceSpec


def check_links(
    report: Report, sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec], examples: ExamplesSpec
) -> None:
    """Report what is wrong between tables that may each be right."""
    before = len(report.found)
    for source in sources.values():
        _check_inputs(report, source, sources, mixtures)
    for mixture in mixtures.values():
        _check_weights(report, mixture, sources, mixtures)
        _check_caps(report, mixture)
        if mixture.by == "tokens" and not examples.has_tokens:
            hint = "put input_ids in [examples] columns"
            report.add("conflict", ("mixture", mixture.name, "by"), "the examples have no tokens to weigh by", hint)
    _check_cycles(report, sources)
    if len(report.found) == before:
        _check_leaks(report, sources, mixtures)


def _no_such_node(
    name: str, sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec]
) -> tuple[str, str | None]:
    if name in mixtures:
        return "this is a mixture; a source is wanted here", did_you_mean(name, sources)
    return "no such node", did_you_mean(name, sources) or (
        f"sources here: {', '.join(sources)}" if 0 < len(sources) <= 12 else None
    )


def _check_inputs(
    report: Report, source: SourceSpec, sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec]
) -> None:
    path = ("source", source.name, "from")
    for number, name in enumerate(source.inputs):
        if not name.startswith("drv:") and name not in sources:
            at = (*path, number) if (*path, number) in report.places.values else path
            message, hint = _no_such_node(name, sources, mixtures)
            report.add("unknown-node", at, f"{shown(name)}: {message}", hint)


def _check_weights(
    report: Report, mixture: MixtureSpec, sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec]
) -> None:
    for stage in mixture.stages:
        for name in stage.weights:
            path = (*stage.path, name)
            if name.startswith("drv:"):
                advice = f'make a source of it: [source.NAME] with from = "{name[:16]}…", and weigh NAME'
                report.add("unknown-node", path, "a mixture weighs the sources of its recipe", advice, key=True)
            elif name not in sources:
                message, hint = _no_such_node(name, sources, mixtures)
                report.add("unknown-node", path, message, hint, key=True)
            elif sources[name].split and mixture.name not in sources[name].split:
                splits = sources[name].split
                way_out = did_you_mean(mixture.name, splits) or f"its splits: {', '.join(splits)}"
                report.add(
                    "unknown-node",
                    path,
                    f"source '{name}' has splits, and none of them is '{mixture.name}'",
                    f"mixture {shown(mixture.name)} reads the split of its own name; {way_out}",
                    key=True,
                )


def _check_caps(report: Report, mixture: MixtureSpec) -> None:
    weighed = mixture.sources
    for name in mixture.max_epochs:
        if weighed and name not in weighed:
            hint = did_you_mean(name, weighed) or (f"it weighs: {', '.join(weighed)}" if len(weighed) <= 12 else None)
            path = ("mixture", mixture.name, "max_epochs", name)
            report.add("unknown-node", path, "this mixture weighs no such source", hint, key=True)


def _check_cycles(report: Report, sources: Mapping[str, SourceSpec]) -> None:
    """Depth first, without recursion; each cycle is reported once, at the node that closes it."""
    done: set[str] = set()
    for start in sources:
        trail: dict[str, None] = {}
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                trail.pop(name)
                done.add(name)
            elif name in trail:
                names = list(trail)
                ring = [*names[names.index(name) :], name]
                message = f"the nodes need each other: {' -> '.join(ring[-9:])}"
                report.add("cycle", ("source", names[-1], "from"), message, "a source can't follow itself")
            elif name not in done:
                trail[name] = None
                stack.append((name, True))
                stack += [(other, False) for other in sources[name].inputs if other in sources]


_Parting = frozenset[tuple[str, Fraction | int | str]]


def _parting(source: SourceSpec) -> _Parting:
    """Sources of equal partings give one record to the same split, so their different splits never meet.

    Shares go by the record's key alone. Counts take the lowest keys of the source's own records, so two sources that
    have other records (one filters more) part them differently, and only one and the same source is sure.
    """
    parting: set[tuple[str, Fraction | int | str]] = set(source.split.items())
    if any(isinstance(share, int) for share in source.split.values()):
        parting.add(("", source.name))
    return frozenset(parting)


@dataclass(slots=True)
class _Seen:
    """Origins (bits) that earlier mixtures see: through any split, through several, and through each."""

    any: int = 0
    several: int = 0
    by_parting: dict[_Parting, int] = field(default_factory=dict)
    users: list[tuple[str, SourceSpec, int]] = field(default_factory=list)

    def clash(self, source: SourceSpec, origins: int) -> int:
        """The origins of ``source`` that an earlier mixture sees through another split, or through none."""
        if not source.split:
            return origins & self.any
        same = self.by_parting.get(_parting(source), 0)
        return origins & (self.several | (self.any & ~same))

    def user(self, source: SourceSpec, clash: int) -> tuple[str, SourceSpec]:
        """The first mixture, and its source, through which the origins ``clash`` are seen not as by ``source``."""
        own = _parting(source)
        return next((m, s) for m, s, o in self.users if o & clash and not (own and _parting(s) == own))

    def add(self, mixture: str, source: SourceSpec, origins: int) -> None:
        """Remember what ``mixture`` sees through ``source``."""
        parting = _parting(source)
        same = self.by_parting.get(parting, 0)
        self.several |= origins & self.any & ~same
        self.any |= origins
        self.by_parting[parting] = same | origins
        self.users.append((mixture, source, origins))


def _check_leaks(report: Report, sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec]) -> None:
    """Two mixtures may see records of one origin only through equal splits, or where a source says ``shared = true``.

    Split keys are inherited, so equal shares of two branches of one source never meet. Sets of origins are bits of
    integers, so that a hostile recipe costs no memory.
    """
    origins = _origins(sources)
    seen = _Seen()
    for mixture in mixtures.values():
        users = [sources[name] for name in mixture.sources if not sources[name].shared]
        for source in users:
            clash = seen.clash(source, origins[source.name])
            if clash:
                _report_leak(report, mixture, source, *seen.user(source, clash))
        for source in users:
            seen.add(mixture.name, source, origins[source.name])


def _report_leak(report: Report, mixture: MixtureSpec, source: SourceSpec, other: str, through: SourceSpec) -> None:
    name, shares = source.name, f"split = {{ {other} = 0.9, {mixture.name} = 0.1 }}"
    if name == through.name:
        message, way_out = f"source '{name}' has no splits and feeds '{other}' too", f"give it {shares}"
    else:
        counted = source.split and source.split == through.split
        why = "equal counts of two sources take other records" if counted else "not the same splits"
        message = f"source '{name}' has records of '{through.name}', which feeds '{other}', and {why}"
        way_out = f"give both {shares}"
        if source.split or through.split:
            way_out = "give both the same split, with no counts"
    hint = f"{way_out}, or say shared = true in [source.{name}]"
    report.add("leak", mixture.place(name), message, hint, key=True)


def _origins(sources: Mapping[str, SourceSpec]) -> dict[str, int]:
    """For each source the bits of the files, and of the nodes of other recipes, that its records come from."""
    bits: dict[str, int] = {}
    known: dict[str, int] = {}
    stack = list(sources)
    while stack:
        name = stack[-1]
        source = sources[name]
        missing = [i for i in source.inputs if i in sources and i not in known]
        if missing and name not in known:
            stack += missing
            continue
        stack.pop()
        if name in known:
            continue
        found = 0
        for origin in source.inputs or (name,):
            if origin in known:
                found |= known[origin]
            else:
                found |= bits.setdefault(origin, 1 << len(bits))
        known[name] = 0 if source.shared else found
    return known
