"""``dsbuild build``."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dsbuild.cli.output import (
    count,
    json_option,
    percent,
    print_json,
    print_table,
    recipe_argument,
    say,
    store_option,
    update_names,
    update_option,
)

if TYPE_CHECKING:
    from dsbuild.store import Store


@click.command("build")
@recipe_argument
@store_option
@click.option("--jobs", "-j", type=click.IntRange(1), help="Worker processes; by default one a core.")
@click.option(
    "--keep-going/--fail-fast", default=True, help="After a failed part, finish the others (the default) or stop."
)
@click.option("--dry-run", is_flag=True, help="Show what would be built and why; write nothing.")
@update_option
@click.option("--locked", is_flag=True, help="Refuse to create a lock.")
@click.option(
    "--check",
    "check",
    is_flag=False,
    flag_value="100%",
    metavar="[PERCENT]",
    help="Build a sample of the parts again and compare their content.",
)
@json_option
def command(
    recipe: Path,
    store: str | None,
    jobs: int | None,
    keep_going: bool,
    dry_run: bool,
    update: tuple[str, ...],
    locked: bool,
    check: str | None,
    as_json: bool,
) -> None:
    """Build what is stale of RECIPE and print its hash.

    Parts that are in the store already are not built again, whichever recipe or run made them. A missing lock is made;
    an existing one never changes unless --update says so.
    """
    from dsbuild.build import check_recipe
    from dsbuild.cli.stores import open_store, store_to_plan_in

    check_recipe(recipe)  # its mistakes come before any store is made
    if dry_run:
        with store_to_plan_in(recipe.parent, store) as planned:
            _plan(recipe, planned, update_names(update), locked, as_json)
        return
    opened = open_store(recipe.parent, store, create=True)
    say(f"store: {opened.root}")
    share = None if check is None else percent(check)
    _build(
        recipe, opened, update_names(update), locked, jobs or len(os.sched_getaffinity(0)), keep_going, share, as_json
    )


def _plan(recipe: Path, store: Store, update: tuple[str, ...] | None, locked: bool, as_json: bool) -> None:
    from dsbuild.build import InlineExecutor, build, prepare

    session = prepare(recipe, store=store, update=update, locked=locked, write=False)
    work = session.work(store)
    report = build(session.instance.graph, store, session.files, InlineExecutor(), work, dry_run=True)
    for text in session.python:
        say(f"would run {text}")
    _print_plan(report, as_json)


def _build(
    recipe: Path,
    store: Store,
    update: tuple[str, ...] | None,
    locked: bool,
    jobs: int,
    keep_going: bool,
    check: Fraction | None,
    as_json: bool,
) -> None:
    from dsbuild.build import LocalExecutor, World, build, failure, prepare, recheck
    from dsbuild.cli.outputs import finish
    from dsbuild.cli.progress import Bar

    session = prepare(recipe, store=store, update=update, locked=locked)
    for note in (*session.notes, *(f"runs {text}" for text in session.python)):
        say(note)
    executor, graph, work = LocalExecutor(jobs=jobs), session.instance.graph, session.work(store)
    with Bar() as bar:
        report = build(
            graph,
            store,
            session.files,
            executor,
            work,
            observer=bar,
            fail_fast=not keep_going,
            root=session.recipe.name,
        )
        error = failure(report)
        if error is None and check is not None:
            made = recheck(World(graph=graph, store=store, files=session.files), executor, work, check, bar)
            say(f"built {count(made)} parts again: equal")
    if error is not None:
        for node in report.nodes:
            if node.failed:
                say(f"{node.label}: {node.failed} parts failed, {node.built} built, {node.reused} reused")
        raise error
    finish(session, store, report)
    _print_report(report, as_json)


def _print_plan(report: Any, as_json: bool) -> None:
    rows = []
    for n in report.nodes:
        if n.waiting:
            todo, why = None, "waits for its inputs to be cut or built"
        else:
            todo = n.parts - n.reused
            why = "all parts are there" if not todo else "new" if not n.reused else "some parts changed"
        rows.append(
            {"node": n.label, "kind": n.kind, "digest": n.digest.hex, "parts": n.parts, "to_build": todo, "why": why}
        )
    if as_json:
        print_json({"hash": report.output.hex, "nodes": rows})
        return
    print_table(
        [
            (
                r["node"],
                r["kind"],
                "?" if r["to_build"] is None else r["parts"],
                "?" if r["to_build"] is None else r["to_build"],
                r["why"],
            )
            for r in rows
        ],
        ("node", "kind", "parts", "to build", "why"),
    )
    click.echo(report.output.hex)


def _print_report(report: Any, as_json: bool) -> None:
    if as_json:
        nodes = [
            {
                "node": n.label,
                "kind": n.kind,
                "digest": n.digest.hex,
                "parts": n.parts,
                "built": n.built,
                "reused": n.reused,
                "cutoff": n.cutoff,
                "records": n.records,
                "elements": dict(n.elements),
                "skipped": n.skipped_count,
                "skipped_records": [{"record": s.record, "place": s.place, "reason": s.reason} for s in n.skipped],
                "calls": n.calls,
            }
            for n in report.nodes
        ]
        print_json({"hash": report.output.hex, "nodes": nodes})
        return
    for n in report.nodes:
        if n.kind not in ("records", "pack"):
            continue
        tokens = n.elements.get("input_ids")
        what = f"{count(n.records)} {'examples' if n.kind == 'pack' else 'records'}" + (
            "" if tokens is None else f", {count(tokens)} tokens"
        )
        say(f"{n.label}: {what}; {n.built} of {n.parts} parts built, {n.reused} reused")
        if n.skipped_count:
            say(f"{n.label}: {n.skipped_count} records skipped:")
            for skip in n.skipped[:20]:
                say(f"  {skip.place}: {skip.reason}")
            if n.skipped_count > 20:
                say("  … all of them: dsbuild show --json")
    click.echo(report.output.hex)
