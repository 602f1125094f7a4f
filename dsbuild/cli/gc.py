"""``dsbuild gc``."""

from __future__ import annotations

import click

from dsbuild.cli.output import count, json_option, print_json, say, size, store_option


@click.command("gc")
@store_option
@click.option("--dry-run", is_flag=True, help="Show what would be freed and why the rest is kept; delete nothing.")
@json_option
def command(store: str | None, dry_run: bool, as_json: bool) -> None:
    """Free what nothing needs. Kept are closures of roots, of living builds, and of unfinished builds."""
    from dsbuild.cli.stores import open_store
    from dsbuild.store import collect

    opened = open_store(None, store, readonly=dry_run)
    report = collect(opened, dry_run=dry_run)
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "freed": {"objects": report.dead_objects, "bytes": report.dead_bytes},
                "kept": {"objects": report.kept_objects, "bytes": report.kept_bytes},
                "because": [{"derivation": d.hex, "reason": reason} for d, reason in report.reasons],
            }
        )
        return
    if dry_run:
        for digest, reason in report.reasons:
            click.echo(f"{digest.hex}  kept: {reason}")
    verb = "would free" if dry_run else "freed"
    say(f"{verb} {count(report.dead_objects)} objects, {size(report.dead_bytes)}; kept {count(report.kept_objects)}")
