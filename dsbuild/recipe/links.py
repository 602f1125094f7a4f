"""Links between nodes: names that must exist, cycles, and records that could leak from one mixture to another."""

from __future__ import annotations

from collections.abc import Mapping

from dsbuild.recipe.leaks import leaks, spread
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


def _check_leaks(report: Report, sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec]) -> None:
    """Sources that share an origin by name; those that name the same files are found when there is a lock."""
    bits: dict[str, int] = {}
    origins = spread(sources, lambda base: {"": bits.setdefault(base, 1 << len(bits))})
    for leak in leaks(sources, mixtures, origins):
        report.add("leak", leak.place, leak.message(), leak.hint, key=True)
