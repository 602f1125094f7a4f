"""Run: build what is stale of a graph, level by level, through an executor.

Resume is not a mode: a second run finds fewer tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dsbuild.build.cuts import encode_table
from dsbuild.build.examples import check_examples
from dsbuild.build.packing import plan_pack
from dsbuild.build.plan import STORED, NodePlan, World, bases, contents_of, plan_records
from dsbuild.build.selecting import plan_split
from dsbuild.build.tasks import CutDone, CutTask, PartDone, PartTask, Task
from dsbuild.digest import Digest
from dsbuild.errors import BuildError, CorruptError, Diagnostic, DsbuildError, StorageError
from dsbuild.graph.derivation import Graph
from dsbuild.interfaces import Done, Executor, Skip
from dsbuild.recipe import Found
from dsbuild.schema import Schema
from dsbuild.store import Manifest, Store


@dataclass(slots=True, kw_only=True)
class NodeReport:
    """What became of one node. ``calls``: records that each handler saw in this build."""

    digest: Digest
    label: str
    kind: str
    parts: int = 0
    reused: int = 0
    built: int = 0
    cutoff: int = 0
    failed: int = 0
    records: int = 0
    elements: Mapping[str, int] = field(default_factory=dict)
    skipped: list[Skip] = field(default_factory=list)
    skipped_count: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    waiting: bool = False


@dataclass(slots=True, kw_only=True)
class BuildReport:
    """What a build did: the recipe's hash, a report a node, and the errors of failed parts."""

    output: Digest
    nodes: list[NodeReport] = field(default_factory=list)
    errors: list[DsbuildError] = field(default_factory=list)

    @property
    def built(self) -> int:
        """Parts that were made."""
        return sum(n.built for n in self.nodes)

    @property
    def calls(self) -> dict[str, int]:
        """Records that each handler saw, over all nodes."""
        found: dict[str, int] = {}
        for node in self.nodes:
            for name, count in node.calls.items():
                found[name] = found.get(name, 0) + count
        return found


class Observer:
    """Hears of progress; every method does nothing here."""

    def planned(self, parts: int, size: int) -> None:
        """``parts`` tasks of ``size`` input bytes in all are about to run."""

    def done(self, task: Task, result: PartDone | CutDone | None) -> None:
        """``task`` ended; ``result`` is None if it failed."""


def build(
    graph: Graph,
    store: Store,
    files: Mapping[str, Found],
    executor: Executor,
    work: Callable[[Task], PartDone | CutDone],
    *,
    observer: Observer | None = None,
    fail_fast: bool = False,
    dry_run: bool = False,
    root: str | None = None,
) -> BuildReport:
    """Build every node of ``graph`` that is not in ``store``.

    A failed part does not stop the others (unless ``fail_fast``); nodes above it are left out and the report has the
    errors. ``root``: the name that a whole build keeps its output under. ``dry_run`` plans only: nodes that wait for
    others, or for files to be cut, are marked ``waiting``.
    """
    world = World(graph=graph, store=store, files=files)
    report = BuildReport(output=graph.output)
    todo = [d for d in graph.closure(graph.output) if graph.derivations[d].kind in STORED]
    if dry_run:
        _dry(world, todo, report)
        return report
    with store.lease(todo):
        for digest in graph.closure(graph.output):
            store.put_derivation(digest, graph.derivations[digest].canonical)
        run = _Run(world=world, executor=executor, work=work, observer=observer or Observer(), fail_fast=fail_fast)
        run.all(todo, report)
        if not report.errors:
            report.errors += check_examples(world)
        if not report.errors:
            if root is not None:
                store.roots.add(root, graph.output)  # while the lease still protects what it names
            for digest in todo:
                store.forget_partial(digest)
    return report


@dataclass(slots=True, kw_only=True)
class _Run:
    world: World
    executor: Executor
    work: Callable[[Task], PartDone | CutDone]
    observer: Observer
    fail_fast: bool
    finished: set[Digest] = field(default_factory=set)

    def all(self, todo: list[Digest], report: BuildReport) -> None:
        while todo:
            ready = [d for d in todo if all(b in self.finished for b in bases(self.world, d))]
            if not ready:
                return  # what is left needs a node that failed
            todo = [d for d in todo if d not in ready]
            self.level(ready, report)
            if report.errors and (self.fail_fast or isinstance(report.errors[-1], StorageError)):
                return

    def level(self, ready: list[Digest], report: BuildReport) -> None:
        """Nodes that wait for nothing: cut their files, plan them, run what is missing, publish their manifests."""
        store = self.world.store
        whole = {d: m for d in ready if (m := _manifest(store, d)) is not None and _is_whole(store, m)}
        stale = [d for d in ready if d not in whole]
        failed = self.cut(stale, report)
        plans = self.plans([d for d in stale if d not in failed], report)
        for digest, plan in plans.items():
            store.partial(digest, plan.actions)
            plan.look(store)
        reports = {d: _report(self.world, d) for d in ready}
        for digest, manifest in whole.items():
            _count(reports[digest], manifest, len(manifest.records))
        self.parts(plans, reports, report)
        for digest, plan in plans.items():
            if len(plan.known) == len(plan.actions):
                manifest = plan.manifest()
                store.publish_manifest(manifest)
                _count(reports[digest], manifest, len(plan.actions) - reports[digest].built)
        self.finished |= whole.keys() | {d for d, plan in plans.items() if len(plan.known) == len(plan.actions)}
        report.nodes += [reports[d] for d in ready]

    def plans(self, stale: list[Digest], report: BuildReport) -> dict[Digest, NodePlan]:
        """The plans of nodes; an error of one does not stop the others."""
        found = {}
        for digest in stale:
            try:
                found[digest] = plan_node(self.world, digest)
            except BuildError as error:
                report.errors.append(error)
        return found

    def cut(self, stale: list[Digest], report: BuildReport) -> set[Digest]:
        """Make the missing cut tables; the nodes that have a file which can't be cut."""
        tasks: dict[Digest, CutTask] = {}
        users: dict[Digest, set[Digest]] = {}
        for digest in stale:
            for task in _missing_cuts(self.world, digest):
                tasks.setdefault(task.key, task)
                users.setdefault(task.key, set()).add(digest)
        failed: set[Digest] = set()
        for done in self.run(list(tasks.values())):
            if isinstance(done.value, CutDone):
                self.world.store.put_cut_table(done.value.key, encode_table(done.value.table))
            else:
                report.errors.append(_error(done))
                failed |= users[done.task.key]
        return failed

    def parts(
        self, plans: Mapping[Digest, NodePlan], reports: Mapping[Digest, NodeReport], report: BuildReport
    ) -> None:
        tasks = [t for plan in plans.values() for t in plan.tasks]
        first: dict[Digest, PartTask] = {}
        twins: dict[Digest, list[PartTask]] = {}
        for task in tasks:
            first.setdefault(task.action, task)
            twins.setdefault(task.action, []).append(task)
        for done in self.run(list(first.values())):
            node = reports[done.task.node]
            if not isinstance(done.value, PartDone):
                for twin in twins[done.task.action]:
                    reports[twin.node].failed += 1
                report.errors.append(_error(done))
                continue
            node.built += 1
            node.cutoff += done.value.cutoff
            node.skipped += done.value.skipped
            node.skipped_count += done.value.skipped_count
            for name, count in done.value.calls.items():
                node.calls[name] = node.calls.get(name, 0) + count
            for twin in twins[done.value.action]:
                plans[twin.node].known[twin.number] = done.value

    def run(self, tasks: list[Task]) -> Iterator[Done]:
        """The tasks through the executor, observed; stops at the first error if so told, and at a full disk always."""
        if not tasks:
            return
        self.observer.planned(len(tasks), sum(getattr(t, "bytes", 0) for t in tasks))
        results = self.executor.run(iter(tasks), self.work)
        try:
            for done in results:
                self.observer.done(done.task, done.value)
                yield done
                if done.error is not None and (self.fail_fast or isinstance(done.error, StorageError)):
                    return
        finally:
            close = getattr(results, "close", None)
            if close is not None:
                close()


def _missing_cuts(world: World, digest: Digest) -> Iterable[CutTask]:
    if world.derivation(digest).kind != "records":
        return
    schema = Schema.from_json(world.derivation(digest).arguments["columns"])
    for strand in world.strands(digest):
        if world.derivation(strand.base).kind == "source":
            yield from world.source(strand, schema).missing(world.store)


def plan_node(world: World, digest: Digest) -> NodePlan:
    """The plan of a node that has parts. Raises ``BuildError`` where its arguments do not fit its records."""
    kinds = {"records": plan_records, "split": plan_split, "pack": plan_pack}
    return kinds[world.derivation(digest).kind](world, digest)


def _manifest(store: Store, digest: Digest) -> Manifest | None:
    """The manifest of a node; a damaged one is none, and is made again."""
    try:
        return store.manifest(digest)
    except CorruptError:
        return None


def _is_whole(store: Store, manifest: Manifest) -> bool:
    return all(store.has_object(c) for c in set(contents_of(manifest)))


def _report(world: World, digest: Digest) -> NodeReport:
    return NodeReport(digest=digest, label=world.graph.label(digest), kind=world.derivation(digest).kind)


def _count(report: NodeReport, manifest: Manifest, reused: int) -> None:
    report.parts = len(manifest.records)
    report.reused = reused
    report.records = int(manifest.records.sum())
    report.elements = {n: int(a.sum()) for n, a in manifest.elements.items()}


def _dry(world: World, todo: list[Digest], report: BuildReport) -> None:
    finished: set[Digest] = set()
    for digest in todo:
        node = _report(world, digest)
        report.nodes.append(node)
        manifest = _manifest(world.store, digest)
        if manifest is not None and _is_whole(world.store, manifest):
            _count(node, manifest, len(manifest.records))
            finished.add(digest)
        elif any(b not in finished for b in bases(world, digest)) or any(True for _ in _missing_cuts(world, digest)):
            node.waiting = True
        else:
            found = plan_node(world, digest)
            found.look(world.store)
            node.parts, node.reused = len(found.actions), len(found.known)


def _error(done: Done) -> DsbuildError:
    if isinstance(done.error, DsbuildError):
        return done.error
    return DsbuildError(f"{done.error!r}", kind="internal")


def failure(report: BuildReport) -> DsbuildError | None:
    """The error of a build that is not whole: all mistakes of its parts; its class is that of the gravest one."""
    if not report.errors:
        return None
    found: list[Diagnostic] = list(dict.fromkeys(d for e in report.errors for d in e.diagnostics))
    gravest = next((e for e in report.errors if not isinstance(e, BuildError)), report.errors[0])
    return type(gravest)(diagnostics=sorted(found, key=lambda d: d.kind != gravest.kind))
