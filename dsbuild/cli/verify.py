"""``dsbuild verify``."""

from __future__ import annotations

import click

from dsbuild.cli.output import count, json_option, percent, print_json, say, size, store_option


@click.command("verify")
@click.argument("hashes", nargs=-1)
@store_option
@click.option("--quick", is_flag=True, help="Only presence and sizes of files, not their bytes.")
@click.option("--sample", metavar="PERCENT", help="Check a share of the objects, such as 5%.")
@json_option
def command(hashes: tuple[str, ...], store: str | None, quick: bool, sample: str | None, as_json: bool) -> None:
    """Check stored bytes against what was published: those of HASHES, or all. Exit 5 if they differ."""
    from dsbuild.cli.stores import open_store
    from dsbuild.errors import CorruptError, Diagnostic
    from dsbuild.store import verify

    opened = open_store(None, store, readonly=True)
    digests = [opened.resolve(h) for h in hashes] or None
    report = verify(opened, digests, quick=quick, sample=None if sample is None else percent(sample))
    if as_json:
        print_json(
            {
                "objects": report.objects,
                "bytes": report.bytes,
                "damage": [{"name": d.name, "path": d.path, "message": d.message} for d in report.damage],
            }
        )
    if report.damage:
        hint = (
            f"remove what is damaged below {opened.root} (an object as a whole) and build again: it is made anew, equal"
        )
        raise CorruptError(
            diagnostics=[
                Diagnostic(
                    message=f"{d.name}: {d.message}" if d.path in d.message else f"{d.name}: {d.path}: {d.message}",
                    kind="corrupt",
                    hint=hint if i == 0 else None,
                )
                for i, d in enumerate(report.damage)
            ]
        )
    if not as_json:
        say(f"{count(report.objects)} objects, {size(report.bytes)}: as published")
