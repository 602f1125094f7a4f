"""Generates the reference pages that the code knows best; ``--check`` says whether they are up to date."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click

from dsbuild import registry
from dsbuild.cli import COMMANDS, commands
from dsbuild.errors import CLASSES, KINDS
from dsbuild.interfaces import Argument

HERE = Path(__file__).parent
MADE = "<!-- made by docs/generate.py; edit the code instead -->\n"


def cli() -> str:
    """Every command with its help, arguments and options."""
    lines = [
        MADE,
        "# Command line\n",
        "`dsbuild COMMAND --help` prints the same; `python -m dsbuild` is the same program. Data goes to stdout, words to people to",
        "stderr. Exit codes are in [errors](errors.md).\n",
        'Shell completion: put `eval "$(_DSBUILD_COMPLETE=bash_source dsbuild)"` in `~/.bashrc` (or `zsh_source` in `~/.zshrc`; for',
        "fish, `_DSBUILD_COMPLETE=fish_source dsbuild | source`).\n",
    ]
    with click.Context(commands, info_name="dsbuild") as ctx:
        for name in sorted(COMMANDS):
            command = commands.get_command(ctx, name)
            assert command is not None
            lines += section(ctx, command, name, 2)
    return "\n".join(lines)


def section(parent: click.Context, command: click.Command, name: str, level: int) -> list[str]:
    with click.Context(command, info_name=name, parent=parent) as ctx:
        usage = " ".join(command.collect_usage_pieces(ctx))
        help_text = " ".join((command.help or "").replace("\n\n", "\0").split()).replace("\0", "\n\n")
        lines = [f"{'#' * level} {ctx.command_path}\n", f"    {ctx.command_path} {usage}\n", help_text + "\n"]
        for option in command.params:
            record = option.get_help_record(ctx)
            if record is not None:
                lines.append(f"- `{record[0]}`: {record[1]}")
        lines.append("")
        if isinstance(command, click.Group):
            for child in command.list_commands(ctx):
                found = command.get_command(ctx, child)
                assert found is not None
                lines += section(ctx, found, child, level + 1)
    return lines


def errors() -> str:
    """Exit codes by class, and the append-only table of kinds."""
    lines = [
        MADE,
        "# Errors and exit codes\n",
        "An error says what is wrong, where (file:line:column), and what to do next; the word in brackets is its *kind*,",
        "which is stable. With `--json` the same facts are one document on stdout: `errors` (kind, message, where, hint)",
        "and `exit_code`.\n",
        "| exit | class | meaning |",
        "|---|---|---|",
        "| 0 | | done |",
        "| 2 | usage | a command line that does not parse |",
    ]
    for cls in sorted(CLASSES, key=lambda c: c.exit_code):
        doc = (cls.__doc__ or "").split("\n")[0]
        meaning = "a bug of dsbuild, with a traceback" if cls.exit_code == 70 else doc
        lines.append(f"| {cls.exit_code} | {cls.title} | {meaning} |")
    lines += [
        "",
        "The class of an error, and so its exit code, says what to do; a kind says what it is about, in any class.",
        "",
        "| kind | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{kind}` | {meaning} |" for kind, meaning in sorted(KINDS.items())]
    return "\n".join(lines) + "\n"


def handlers() -> str:
    """Built-in handlers and readers with their arguments."""
    lines = [
        MADE,
        "# Handlers and readers\n",
        "Handlers are written `{ use = NAME, argument = value }`. Their version is in the hash, and is raised only when",
        "their output changes.\n",
    ]
    for name in registry.handler_names():
        cls = registry.handler(name)
        if name != "python":
            lines += plugin(f"{name}@{cls.version}", cls.__doc__, cls.arguments)
    lines.append("# Readers\n")
    lines.append("`format = NAME` chooses one; else the file's suffix does. Arguments go in `read = { … }`.\n")
    for name in registry.reader_names():
        reader = registry.reader(name)
        lines += plugin(f"{name}@{reader.version}", type(reader).__doc__, reader.arguments)
        lines.append(f"Suffixes: {', '.join(f'`{s}`' for s in reader.suffixes)}\n")
    return "\n".join(lines)


def plugin(title: str, doc: str | None, arguments: tuple[Argument, ...]) -> list[str]:
    text = " ".join((doc or "").split("\n\n")[0].split())
    lines = [f"## {title}\n", text + "\n"]
    if arguments:
        lines += ["| argument | type | default | meaning |", "|---|---|---|---|"]
        for a in arguments:
            default = (
                "required"
                if a.required
                else ""
                if a.default is None
                else f"`{str(a.default).lower() if isinstance(a.default, bool) else a.default}`"
            )
            choices = f" ({', '.join(a.choices)})" if a.choices else ""
            lines.append(f"| `{a.name}` | {a.type}{choices} | {default} | {a.doc} |".replace("||", "\\|\\|"))
        lines.append("")
    return lines


def python() -> str:
    """What a trainer calls, with signatures and docstrings."""
    from dsbuild import Dataset, open_dataset
    from dsbuild.load import Loader
    from dsbuild.load.find import Occurrence
    from dsbuild.load.trace import Piece, Traced
    from dsbuild.order.partition import Schedule

    lines = [
        MADE,
        "# Python\n",
        "`import dsbuild` loads neither torch nor JAX. All errors are `dsbuild.errors.DsbuildError`s with `kind`, `exit_code` and",
        "`diagnostics` (message, place, hint); a traceback shows the hints as notes.\n",
        "The adapters are described in [PyTorch](../how-to/pytorch.md) and [JAX](../how-to/jax.md).\n",
        *described("dsbuild.open_dataset", open_dataset, 2),
    ]
    for cls, methods in (
        (
            Dataset,
            ("steps", "example", "examples", "batch", "loader", "rows", "trace", "find", "torch", "jax", "close"),
        ),
        (Loader, ("step", "position", "seek", "state_dict", "load_state_dict", "close")),
        (Schedule, ("size", "first", "steps")),
        (Traced, ()),
        (Piece, ()),
        (Occurrence, ()),
    ):
        lines += described(cls.__name__, cls, 2)
        for name in methods:
            lines += described(f"{cls.__name__}.{name}", inspect.getattr_static(cls, name), 3)
    return "\n".join(lines)


def described(title: str, thing: object, level: int) -> list[str]:
    doc = inspect.getdoc(thing) or ""
    lines = [f"{'#' * level} {title}\n"]
    if callable(thing) and (not dataclasses.is_dataclass(thing) or title == "Schedule"):
        told = inspect.signature(thing)
        if "self" in told.parameters:
            told = told.replace(parameters=[p for n, p in told.parameters.items() if n != "self"])
        text = re.sub(r"<class '([\w.]+)'>", r"\1", str(told))
        text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are text in the code
        lines.append(f"    {title}{text}\n")
    return [*lines, doc.replace("``", "`") + "\n"]


PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli,
    "reference/errors.md": errors,
    "reference/handlers.md": handlers,
    "reference/python.md": python,
}


def main(check: bool) -> int:
    """Write the pages, or list those that differ."""
    stale = []
    for name, make in PAGES.items():
        path, text = HERE / name, make()
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8", newline="\n")
    for name in stale:
        print(f"docs/{name}: {'out of date; run docs/generate.py' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
