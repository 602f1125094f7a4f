"""One word per thing: names that the glossary forbids are not module, class or function names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent / "dsbuild"
FORBIDDEN = re.compile(
    r"(?i)(^|_)(utils?|helpers?|misc|common|manager|corpus|ledger|artifact|checksum|freeze|blend)(_|$)"
)


def names() -> list[str]:
    found = []
    for path in ROOT.rglob("*.py"):
        found.append(path.stem)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.append(node.name)
    return found


def test_words() -> None:
    assert [n for n in names() if FORBIDDEN.search(n)] == []


def test_negative_control() -> None:
    assert FORBIDDEN.search("path_utils")
