"""Golden outputs of each handler's version: what is hashed, and the records and content digest that it makes.

A difference means that the handler's version must rise. ``DSBUILD_GOLDEN=write`` writes what is made now.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsbuild import canon, registry
from dsbuild.interfaces import Facts, RecordError, Resources
from dsbuild.recipe.code import load_code
from dsbuild.records import Column, Records
from dsbuild.registry.names import HANDLERS
from dsbuild.schema import Field
from dsbuild.testing import handlers as suite
from dsbuild.tokenizers import load_tokenizer

GOLDEN = Path(__file__).parents[2] / "golden" / "handlers"
FILES = sorted(GOLDEN.glob("*.json"))


def made(name: str, case: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The outputs of one golden case, from its inputs."""
    cls: Any = registry.handler(name)
    tokenizer = load_tokenizer("bytes", directory)
    facts = Facts(
        seed=1,
        tokenizer=tokenizer.fingerprint,
        vocabulary=case.get("vocabulary", tokenizer.size),
        eos=case.get("eos"),
        bos=case.get("bos"),
        special=case.get("special", "text"),
        libraries=case.get("libraries", {}),
    )
    arguments = canon.decode(case["arguments"].encode())
    resources = Resources(tokenizer=lambda: tokenizer)
    if "files" in case:
        for file, text in case["files"].items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(text, "utf-8")
        code = load_code(directory, next(iter(case["files"])), case["function"])
        arguments |= {"code": code.digest.hex, "entry": code.entry}
        resources = Resources(modules=code.modules, lines=code.lines)
    hashed = cls.resolve(arguments, facts)
    try:
        records = cls(hashed, resources).apply(_typed(suite.make_records(case["rows"]), case.get("typed", {})))
    except RecordError as error:
        return {"hashed": canon.encode(hashed).decode(), "error": [error.row, error.message]}
    return {
        "hashed": canon.encode(hashed).decode(),
        "schema": records.schema.as_json(),
        "output": [_plain(records, i) for i in range(len(records))],
        "content": suite.content(records),
    }


def _typed(records: Records, columns: dict[str, Any]) -> Records:
    changes = {}
    for name, (dtype, values) in columns.items():
        offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
        flat = np.array([v for row in values for v in row], dtype)
        changes[name] = (Field(name=name, dtype=dtype, shape=(None,)), Column(values=flat, offsets=offsets))
    return records.replace(changes)


def _plain(records: Records, i: int) -> dict[str, Any]:
    return {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in records.row(i).items()}


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_golden(path: Path, tmp_path: Path) -> None:
    cases = json.loads(path.read_text("utf-8"))
    name, _, version = path.stem.partition("@")
    assert registry.handler(name).version >= int(version)
    if registry.handler(name).version > int(version):
        pytest.skip("an older version, kept as a record")
    found = {k: made(name, case["in"], tmp_path / str(i)) for i, (k, case) in enumerate(cases.items())}
    if os.environ.get("DSBUILD_GOLDEN") == "write":
        both = {k: {"in": case["in"], "out": found[k]} for k, case in cases.items()}
        path.write_text(json.dumps(both, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for key, case in json.loads(path.read_text("utf-8")).items():
        assert found[key] == case["out"], key


def test_every_version_has_a_golden() -> None:
    assert {p.stem for p in FILES} >= {f"{name}@{registry.handler(name).version}" for name in HANDLERS}


def test_a_changed_output_is_seen(tmp_path: Path) -> None:
    case = json.loads((GOLDEN / "keep@1.json").read_text("utf-8"))["length"]
    other = {**case["in"], "rows": case["in"]["rows"][1:]}
    assert made("keep", other, tmp_path) != case["out"]
