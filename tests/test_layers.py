"""The law of the house: a room imports only from ranks above it, never beside, never below, lazy imports counted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "dsbuild"

RANKS = {
    "errors": 0,
    "canon": 0,
    "digest": 1,
    "schema": 2,
    "order": 2,
    "recipe": 3,
    "records": 3,
    "interfaces": 4,
    "registry": 5,
    "graph": 6,
    "readers": 6,
    "handlers": 6,
    "tokenizers": 6,
    "store": 7,
    "build": 8,
    "load": 8,
    "serve": 9,
    "testing": 10,
    "cli": 11,
}

# library -> the rooms that may import it
HEAVY = {
    "zarr": {"store", "testing"},
    "numcodecs": {"store"},
    "pyarrow": {"readers"},
    "tokenizers": {"tokenizers"},
    "zstandard": {"readers"},
    "tomli": {"recipe"},
    "click": {"cli"},
    "rich": {"cli"},
    "ray": {"build/executors/ray"},
    "torch": {"load/torch"},
    "jax": {"load/jax"},
}

# (importer, imported): why it is no circle and no shortcut
EXCEPTIONS = {
    ("__init__", "load"): "the package offers open_dataset, lazily",
    ("__main__", "cli"): "python -m dsbuild",
}


def room_of(module: str) -> str:
    return module.split("/")[0]


def imports_of(source: str, module: str) -> set[str]:
    """Dotted names that ``source`` imports, at any depth, also inside functions and under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports hide the room"
            if node.module == "dsbuild":
                found |= {f"dsbuild.{alias.name}" for alias in node.names}
            else:
                found.add(str(node.module))
    return found


def violations(modules: dict[str, str]) -> list[str]:
    """What breaks the law in ``modules`` (path without suffix, relative to the package -> source)."""
    found = []
    for module, source in modules.items():
        room = room_of(module)
        for name in sorted(imports_of(source, module)):
            top, _, rest = name.partition(".")
            if top in HEAVY and not any(module == p or module.startswith(p + "/") or room == p for p in HEAVY[top]):
                found.append(f"{module} imports {name}: only {sorted(HEAVY[top])} may")
            if top != "dsbuild" or not rest:
                continue
            other = rest.split(".")[0]
            if other == room or other.startswith("__") or (room, other) in EXCEPTIONS:
                continue
            if room not in RANKS or other not in RANKS:
                found.append(f"{module} imports {name}: no rank for {room if room not in RANKS else other}")
            elif RANKS[other] >= RANKS[room]:
                found.append(f"{module} (rank {RANKS[room]}) imports {name} (rank {RANKS[other]})")
    return found


def tree() -> dict[str, str]:
    return {
        path.relative_to(ROOT).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in sorted(ROOT.rglob("*.py"))
    }


def test_the_law_holds() -> None:
    modules = tree()
    assert len(modules) > 30
    assert violations(modules) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("order/permute", "from dsbuild.store import Store"),
        ("order/permute", "def f():\n    from dsbuild.store import Store"),
        ("readers/jsonl", "from dsbuild.handlers import keep"),
        ("build/run", "import dsbuild.load.dataset"),
        ("handlers/keep", "def f():\n    import zarr"),
        ("load/dataset", "import torch"),
        ("handlers/keep", "from dsbuild import store"),
        ("utils/things", "from dsbuild.canon import encode"),
    ],
)
def test_negative_controls(module: str, source: str) -> None:
    assert violations({module: source})


def test_modules_are_small() -> None:
    long = {m: n for m, s in tree().items() if (n := s.count("\n")) > 400}
    assert long == {}


def test_every_room_has_a_rank() -> None:
    rooms = {room_of(m) for m in tree()} - {"__init__", "__main__"}
    assert rooms <= set(RANKS)
