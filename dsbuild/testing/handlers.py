"""Conformance of handlers: what the build, the store and reuse rely on, as plain functions that raise AssertionError.

``check_handler`` runs them all on records that you give; write golden outputs of your handler's version beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dsbuild import canon, registry
from dsbuild.canon import Value
from dsbuild.interfaces import Handler, RecordError, Resources
from dsbuild.records import MISSING, Records, concatenate, content_digest, from_rows
from dsbuild.schema import KEY, RECORD

SEEDS = ("0", "1", "random")
"""Values of PYTHONHASHSEED under which a fresh process must give the same bytes."""


def make_records(rows: Sequence[Mapping[str, Any]], first: int = 0) -> Records:
    """Records of JSON-like ``rows`` with split keys and origins that differ from row to row."""
    numbers = np.arange(first, first + len(rows))
    return from_rows(rows, (numbers * 2_654_435_761 + 7).astype(np.uint64), numbers.astype(np.int64))


def check_handler(make: Callable[[], Handler], records: Records) -> Records:
    """All that follows, on ``records`` on which the handler raises nothing; returns its output."""
    check_class(make())
    made = make().apply(records)
    check_input_is_left_alone(make, records)
    check_blocks(make, records)
    check_inheritance(records, made)
    check_effect(make(), records, made)
    check_needs(make, records, made)
    return made


def check_class(handler: Handler) -> None:
    """It is a Handler with a name, an integer version from 1 on, and arguments that differ in name."""
    assert isinstance(handler, Handler)
    assert type(handler.version) is int and handler.version >= 1 and handler.name
    names = [a.name for a in handler.arguments]
    assert len(names) == len(set(names))


def check_resolve(cls: type[Handler], arguments: Mapping[str, Value], facts: Any) -> Mapping[str, Value]:
    """What ``resolve`` gives has a canonical form and is the same again, whatever the order of keys."""
    made = cls.resolve(arguments, facts)
    back = dict(reversed(list(arguments.items())))
    assert canon.encode(made) == canon.encode(cls.resolve(back, facts)), "the order of arguments moves the hash"
    assert canon.decode(canon.encode(made)) == made, "the hashed arguments do not survive their own encoding"
    return made


def check_input_is_left_alone(make: Callable[[], Handler], records: Records) -> None:
    """The records that it was given are as they were, and the same handler gives the same bytes again."""
    before, handler = content(records), make()
    first = content(handler.apply(records))
    assert content(records) == before, "the handler changed its input"
    assert content(handler.apply(records)) == first, "a second call gives other bytes"
    assert content(make().apply(records)) == first, "a second handler gives other bytes"


def check_blocks(make: Callable[[], Handler], records: Records, sizes: Iterable[int] = (1, 2, 3, 7)) -> None:
    """Blocks of any size give the same records, empty blocks too."""
    whole = content(make().apply(records))
    for size in sizes:
        starts = range(0, len(records), size)
        blocks = [records.take(np.arange(s, min(s + size, len(records)))) for s in starts]
        empty = records.take(np.arange(0))
        handler = make()
        made = concatenate([handler.apply(block) for block in [empty, *blocks, empty]])
        assert content(made) == whole, f"blocks of {size} give other bytes than one block"


def check_inheritance(before: Records, after: Records) -> None:
    """``@key`` and ``@record`` of what comes out are those of what went in, in order."""
    assert {KEY, RECORD} <= set(after.schema.names), "@key or @record is gone"
    origins = dict(zip(list(before[RECORD].values), list(before[KEY].values), strict=True))
    made = list(after[RECORD].values)
    assert made == sorted(made), "records are not in the order of those that they were made of"
    for origin, key in zip(made, list(after[KEY].values), strict=True):
        assert origins.get(origin) == key, f"@key of @record {origin} is not inherited"


def check_effect(handler: Handler, before: Records, after: Records) -> None:
    """The columns of the output are those that ``effect`` says."""
    effect = handler.effect()
    for field in effect.adds:
        assert field.name in after.schema and after.schema[field.name] == field, f"column {field.name!r} is not as said"
    if effect.opens:
        return
    had = {n for n in before.schema.names if not n.startswith("@")}
    said = (had | set(effect.copies.values())) - set(effect.renames) | set(effect.renames.values())
    said = (said if effect.keeps_only is None else said & effect.keeps_only) - effect.removes
    said |= {f.name for f in effect.adds}
    got = {n for n in after.schema.names if not n.startswith("@")}
    assert got <= said, f"columns {sorted(got - said)} are not in its effect"
    lost = {n for n in said - got if n in had}
    assert not lost, f"columns {sorted(lost)} are gone, which its effect does not say"


def check_needs(make: Callable[[], Handler], records: Records, after: Records) -> None:
    """With only the columns that ``effect`` needs, it makes the same of them."""
    effect = make().effect()
    if effect.needs is None:
        return
    less = records.select([*effect.needs, *(n for n in records.schema.names if n.startswith("@"))])
    made = make().apply(less)
    assert content(made) == content(after.select(made.schema.names)), "it reads columns that its effect does not need"


def check_fresh_processes(
    builder: str,
    arguments: Mapping[str, Value],
    rows: Sequence[Mapping[str, Any]],
    resources: Resources | None = None,
    tokenizer: tuple[str, Path] | None = None,
) -> None:
    """A fresh process under any PYTHONHASHSEED gives the same bytes. ``tokenizer``: (file, directory) if it has one."""
    resources = resources or Resources()
    request = {
        "builder": builder,
        "arguments": canon.encode(arguments).decode(),
        "rows": list(rows),
        "modules": dict(resources.modules),
        "tokenizer": None if tokenizer is None else [tokenizer[0], str(tokenizer[1])],
    }
    text = json.dumps(request)
    mine = answer(text)
    for seed in SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", "import sys; from dsbuild.testing.handlers import answer\n"
                   "print(answer(sys.stdin.read()))"]  # fmt: skip
        made = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
        assert made.returncode == 0, made.stderr
        assert made.stdout.strip() == mine, f"PYTHONHASHSEED={seed} gives other bytes"


def answer(request: str) -> str:
    """The content digest of what ``check_fresh_processes`` asks for (JSON text)."""
    asked = json.loads(request)
    arguments = canon.decode(asked["arguments"].encode())
    tokenizer = asked["tokenizer"]
    resources = Resources(
        modules=asked["modules"],
        tokenizer=None if tokenizer is None else lambda: registry.load_tokenizer(tokenizer[0], Path(tokenizer[1])),
    )
    cls: Any = registry.handler(asked["builder"].partition("@")[0])
    return content(cls(arguments, resources).apply(make_records(asked["rows"])))


def check_error(make: Callable[[], Handler], records: Records, row: int, said: str) -> RecordError:
    """It raises ``RecordError`` for record ``row`` with ``said`` in its message, alone or in any block."""
    found = None
    for start, stop in ((0, len(records)), (row, row + 1)):
        try:
            make().apply(records.take(np.arange(start, stop)))
        except RecordError as error:
            found = error
            assert error.row == row - start, f"row {error.row}, not {row - start}"
            assert said in error.message, error.message
        else:
            raise AssertionError(f"no RecordError for row {row}")
    assert found is not None
    return found


def content(records: Records) -> str:
    """The content digest of records whose fields may be missing, as text."""
    present = {}
    for field in records.schema.fields:
        values = records[field.name].values
        if isinstance(values, list) and any(v is MISSING for v in values):
            present[field.name] = [i for i, v in enumerate(values) if v is not MISSING]
    whole = content_digest(records.drop(present)).hex
    rest = {n: content_digest(records.select([n]).take(np.array(at, np.int64))).hex for n, at in present.items()}
    gone = [n for n, at in present.items() if not at]
    seen = {n: [at, rest[n]] for n, at in present.items() if n not in gone}
    return whole if not seen else canon.encode({"whole": whole, "rest": seen}).decode()
