"""Files in one run of memory: mapped or copied, the same bytes; other sizes are refused before mapping."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from dsbuild.errors import CorruptError
from dsbuild.store import mapping

PAGE = mmap.PAGESIZE


def files(root: Path, payload: int, sizes: list[int]) -> tuple[list[str], bytes]:
    rng = np.random.default_rng(0)
    paths, whole = [], b""
    for i, size in enumerate(sizes):
        data = rng.bytes(size)
        (root / str(i)).write_bytes(data)
        paths.append(str(root / str(i)))
        whole += data if i == len(sizes) - 1 else data[:payload]
    return paths, whole


@pytest.mark.parametrize(
    ("payload", "sizes"),
    [
        (10, [10]),
        (0, [200_000]),
        (16 * PAGE, [16 * PAGE + 20, 16 * PAGE + 20, 16 * PAGE + 5]),
        (1 << 20, [(1 << 20) + 4] * 3 + [7]),
        (100_001, [100_021, 100_021, 50]),
    ],
)
@pytest.mark.parametrize("possible", [True, False])
def test_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: int, sizes: list[int], possible: bool) -> None:
    paths, whole = files(tmp_path, payload, sizes)
    if not possible:
        monkeypatch.setattr(mapping, "_possible", lambda: False)
    found = mapping.load(paths, sizes, payload)
    assert found.tobytes() == whole
    assert not found.flags.writeable
    for path in paths:
        Path(path).unlink()
    assert found[3:].tobytes() == whole[3:]


def test_large_regions_are_aligned(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 0, [3 << 20])
    found = mapping.load(paths, [3 << 20], 0)
    assert found.ctypes.data % (2 << 20) == 0


def test_maps_are_given_back(tmp_path: Path) -> None:
    paths, _ = files(tmp_path, 0, [3 << 20])
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("needs /proc")
    found = mapping.load(paths, [3 << 20], 0)
    assert paths[0] in maps.read_text()
    del found
    assert paths[0] not in maps.read_text()


@pytest.mark.parametrize("size", [99_999, 100_001])
def test_other_sizes(tmp_path: Path, size: int) -> None:
    paths, _ = files(tmp_path, 0, [100_000])
    with pytest.raises(CorruptError, match="has 100000 bytes"):
        mapping.load(paths, [size], 0)
    with pytest.raises(CorruptError, match="gone"):
        mapping.load([str(tmp_path / "absent")], [5], 0)


def test_load_file(tmp_path: Path) -> None:
    assert mapping.load_file(str(tmp_path / "absent")) is None
    (tmp_path / "empty").touch()
    found = mapping.load_file(str(tmp_path / "empty"))
    assert found is not None
    assert len(found) == 0
