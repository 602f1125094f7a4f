"""``dsbuild init``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dsbuild.cli.output import say

RECIPE = """\
# A dsbuild recipe. Build it with:  dsbuild build {name}.toml
# Then look at it:                  dsbuild peek {name}.toml
dsbuild = 1                         # the version of the recipe language
name = "{name}"
seed = 17                           # decides the order of examples, and nothing else

[tokenizer]
file = "bytes"                      # built in, one token a byte; or a path: "tokenizer.json"
eos = "<eos>"                       # ends every record, as an id, never as text

[source.sayings]
files = "data/*.jsonl"              # a path, a glob or a list; sorted by name
handlers = [                        # what happens to each record, in order
  {{ use = "keep", where = "len(text) >= 10" }},
  {{ use = "tokenize", column = "text" }},
]
split = {{ train = 0.9, valid = 0.1 }} # by a hash of each record: stable when records are added

[mixture.train]                     # a mixture reads the split of its own name
weights = {{ sayings = 1 }}

[mixture.valid]
weights = {{ sayings = 1 }}

[examples]
length = 64                         # tokens an example
pack = "concat"                     # records are joined and cut in windows; "none": one record, one example
mask = "document"                   # attention stays inside a record; "none": it does not
shuffle = "full"                    # a new order each epoch; "none": as the files have it
"""

_WHO = ("A patient gardener", "The night ferry", "An old bridge", "A quiet teacher", "The first frost", "A good map")
_DOES = ("remembers", "outlasts", "follows", "repairs", "carries", "teaches")
_WHAT = (
    "every small seed.",
    "the sound of rain.",
    "what was nearly lost.",
    "a road without a name.",
    "its own shadow.",
)


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path), default=".")
@click.option("--name", default=None, help="The recipe's name; by default the directory's.")
def command(directory: Path, name: str | None) -> None:
    """Write a commented recipe and small sample data into DIRECTORY; it builds at once, offline."""
    import re

    from dsbuild.errors import RecipeError

    wanted = name or re.sub(r"[^A-Za-z0-9._-]+", "-", directory.resolve().name).strip("-._") or "recipe"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", wanted):
        raise RecipeError(
            f"{wanted!r}: a recipe's name has letters, digits, '.', '_' and '-' only",
            kind="bad-name",
            hint="give --name",
        )
    recipe, data = directory / f"{wanted}.toml", directory / "data" / "sayings.jsonl"
    for path in (recipe, data):
        if path.exists():
            raise RecipeError(
                f"{path}: exists already", kind="conflict", hint="init overwrites nothing; give another directory"
            )
    data.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": n, "text": f"{_WHO[n % 6]} {_DOES[n // 6 % 6]} {_WHAT[n % 5]}"}) for n in range(180)]
    data.write_text("\n".join(lines) + "\n", "utf-8", newline="\n")
    recipe.write_text(RECIPE.format(name=wanted), "utf-8", newline="\n")
    say(f"wrote {recipe} and {data}")
    say(f"next: dsbuild build {recipe}")
