"""The listing of an object's files refuses what ``render`` can't have made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsbuild.digest import Digest
from dsbuild.store.listing import BLOCK, parse, render

A, B = Digest(b"a" * 32), Digest(b"b" * 32)


def data(**changes: Any) -> bytes:
    value = json.loads(render(A, {"data.zarr/x/c.0": (BLOCK + 1, B), "data.zarr/zarr.json": (5, A)}, b"x" * 64))
    return json.dumps(value | changes, sort_keys=True, separators=(",", ":")).encode()


def test_round_trip() -> None:
    found = parse(data())
    assert found.content == A
    assert found.rows == 2
    assert found.entries["data.zarr/x/c.0"].first == 0
    assert found.entries["data.zarr/zarr.json"].first == -1
    assert found.size == BLOCK + 1 + 5 + len(found.data) + 64


@pytest.mark.parametrize(
    "changes",
    [
        {"dsbuild": 2},
        {"block": 4096},
        {"more": 1},
        {"files": {}},
        {"files": [["data.zarr/x/c.0", 1]]},
        {"files": [["../x", 100_000, B.hex]]},
        {"files": [["data.zarr/../x", 100_000, B.hex]]},
        {"files": [["/data.zarr/x", 100_000, B.hex]]},
        {"files": [["data.zarr/a/b/c/d", 100_000, B.hex]]},
        {"files": [["data.zarr/x\n", 100_000, B.hex]]},
        {"files": [["data.zarr/x", -1, B.hex]]},
        {"files": [["data.zarr/x", True, B.hex]]},
        {"files": [["data.zarr/x", 100_000, B.hex], ["data.zarr/x", 100_000, B.hex]]},
        {"files": [["data.zarr/y", 100_000, B.hex], ["data.zarr/x", 100_000, B.hex]]},
        {"files": [["data.zarr/x", 5, B.hex]]},
        {"content": "00"},
        {"content": 3},
        {"blocks": "zz"},
    ],
)
def test_others_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(data(**changes))


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", data() + b" ", data().replace(b",", b", ", 1)])
def test_bytes_that_are_not_canonical(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(raw)
