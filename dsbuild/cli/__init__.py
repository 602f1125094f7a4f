"""cli: the command line. One module a command, imported when it is used, so that help and completion are quick."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

import click

COMMANDS = {
    "build": "Build what is stale of a recipe and print its hash.",
    "check": "Find all mistakes of a recipe before any data is read.",
    "find": "Show where in the stream a record is seen.",
    "gc": "Free what no root, lease or build under way needs.",
    "hash": "Print a recipe's hash without touching data.",
    "init": "Write a commented recipe and sample data that builds at once.",
    "list": "List the recipes and nodes of the store.",
    "lock": "Write, check or update the lock beside a recipe.",
    "peek": "Show examples of a dataset, decoded to text.",
    "root": "Name hashes that gc must keep.",
    "show": "Show what a hash or recipe is.",
    "trace": "Show which files and records a step was made of.",
    "verify": "Check stored bytes against what was published.",
}


class _Commands(click.Group):
    """Commands by name, each loaded from its own module; help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"dsbuild.cli.{cmd_name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from None
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dsbuild", message="dsbuild %(version)s")
def commands() -> None:
    """Nix for training data: recipes become immutable, hash-keyed, deterministic streams of batches."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the documented code of what happened."""
    gc.set_threshold(1_000_000, 50, 50)  # a command makes 10^6 small values that live to its end: do not sweep them
    for number in (signal.SIGTERM, signal.SIGHUP):  # leave leases and workers as a Ctrl-C does
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        code = commands.main(arguments, prog_name="dsbuild", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        from dsbuild.cli.output import report_error
        from dsbuild.errors import StoppedError

        stopped = StoppedError("stopped", kind="interrupted", hint="what was published stays; build again to go on")
        code = report_error(stopped, as_json="--json" in (arguments or sys.argv))
    except BrokenPipeError:
        # the reader of our output went away (dsbuild list | head): not an error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:  # noqa: BLE001 - the last door: nothing leaves as a bare traceback
        from dsbuild.cli.output import report_error

        code = report_error(error, as_json="--json" in (arguments or sys.argv))
    sys.exit(code if isinstance(code, int) else 0)
