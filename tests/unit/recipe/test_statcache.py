from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dsbuild.digest import Digest
from dsbuild.recipe import StatCache
from dsbuild.recipe import statcache as module
from dsbuild.recipe.statcache import FILE, FRESH_NS

DIGEST = Digest(bytes(range(32)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data file\udcff.jsonl"
    path.write_text("abc")
    os.utime(path, ns=(10**18, 10**18))
    return path


def filled(directory: Path | None, file: Path) -> StatCache:
    cache = StatCache(directory)
    cache.remember(str(file), file.stat(), DIGEST, time.time_ns())
    return cache


def test_it_is_remembered_across_processes(tmp_path: Path, file: Path) -> None:
    cache = filled(tmp_path / "store" / "cache", file)
    assert cache.lookup(str(file), file.stat()) == DIGEST
    assert cache.save()
    assert StatCache(tmp_path / "store" / "cache").lookup(str(file), file.stat()) == DIGEST
    assert [p.name for p in (tmp_path / "store" / "cache").iterdir()] == [FILE]


def test_without_a_directory(file: Path) -> None:
    cache = filled(None, file)
    assert cache.lookup(str(file), file.stat()) == DIGEST
    assert not cache.save()


@pytest.mark.parametrize("change", ["size", "mtime", "ctime", "inode", "path"])
def test_any_change_is_a_miss(tmp_path: Path, file: Path, change: str) -> None:
    cache = filled(tmp_path / "c", file)
    if change == "size":
        file.write_text("abcd")
        os.utime(file, ns=(10**18, 10**18))
    elif change == "mtime":
        os.utime(file, ns=(10**18, 10**18 + 1))
    elif change == "ctime":
        time.sleep(0.02)
        file.chmod(0o600)
    elif change == "inode":
        other = tmp_path / "other"
        other.write_text("abc")
        os.utime(other, ns=(10**18, 10**18))
        other.replace(file)
    else:
        assert cache.lookup(str(file) + "x", file.stat()) is None
        return
    assert cache.lookup(str(file), file.stat()) is None


@pytest.mark.parametrize(
    ("age", "trusted"), [(FRESH_NS + 1, True), (FRESH_NS - 1, False), (0, False), (-(10**12), False)]
)
def test_fresh_files_are_not_remembered(tmp_path: Path, file: Path, age: int, trusted: bool) -> None:
    started = 2 * 10**18
    os.utime(file, ns=(started - age, started - age))
    cache = StatCache(tmp_path / "c")
    cache.remember(str(file), file.stat(), DIGEST, started)
    assert (cache.lookup(str(file), file.stat()) == DIGEST) is trusted


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[1:],
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"000102", b"000103"),
        lambda data: data + b"x",
        lambda data: os.urandom(500),
        lambda data: b"\n",
    ],
)
def test_damage_reads_as_empty(tmp_path: Path, file: Path, damage: object) -> None:
    assert filled(tmp_path, file).save()
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(damage(data))  # type: ignore[operator]
    cache = StatCache(tmp_path)
    assert cache.lookup(str(file), file.stat()) is None
    cache.remember(str(file), file.stat(), DIGEST, time.time_ns())
    assert cache.save()
    assert StatCache(tmp_path).lookup(str(file), file.stat()) == DIGEST


def test_sealed_nonsense(tmp_path: Path, file: Path) -> None:
    status = file.stat()
    for entry in ("x", module._mark(status) + "z" * 64, module._mark(status)):
        body = "\n".join([module._HEAD, str(file), entry]).encode("utf-8", "surrogateescape")
        (tmp_path / FILE).write_bytes(body + b"\n" + module.blake3(body).hexdigest().encode())
        assert StatCache(tmp_path).lookup(str(file), status) is None


def test_places_that_can_not_be_written(tmp_path: Path, file: Path) -> None:
    (tmp_path / "plain").write_text("")
    cache = filled(tmp_path / "plain" / "cache", file)
    assert not cache.save()
    assert cache.lookup(str(file), file.stat()) == DIGEST
    (tmp_path / FILE).mkdir()
    assert not filled(tmp_path, file).save()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([FILE, "plain", file.name])


def test_nothing_learnt_nothing_written(tmp_path: Path, file: Path) -> None:
    filled(tmp_path, file).save()
    before = (tmp_path / FILE).stat().st_mtime_ns
    cache = StatCache(tmp_path)
    assert cache.lookup(str(file), file.stat()) == DIGEST
    assert cache.save()
    assert (tmp_path / FILE).stat().st_mtime_ns == before


def test_unused_entries_are_bounded(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_UNUSED", 3)
    cache = StatCache(tmp_path)
    for number in range(10):
        cache.remember(f"/old/{number}", file.stat(), DIGEST, time.time_ns())
    cache.save()
    filled(tmp_path, file).save()
    cache = StatCache(tmp_path)
    assert cache.lookup(str(file), file.stat()) == DIGEST
    assert sum(cache.lookup(f"/old/{n}", file.stat()) is not None for n in range(10)) == 3


def test_a_line_feed_in_a_path(tmp_path: Path, file: Path) -> None:
    cache = StatCache(tmp_path)
    cache.remember("/a\nb", file.stat(), DIGEST, time.time_ns())
    cache.save()
    assert cache.lookup("/a\nb", file.stat()) is None


def test_ten_thousand_entries_are_quick(tmp_path: Path, file: Path) -> None:
    cache = StatCache(tmp_path)
    status = file.stat()
    for number in range(10_000):
        cache.remember(f"/a/rather/long/directory/name/{number}", status, DIGEST, time.time_ns())
    cache.save()
    started = time.perf_counter()
    cache = StatCache(tmp_path)
    for number in range(10_000):
        assert cache.lookup(f"/a/rather/long/directory/name/{number}", status) is not None
    assert time.perf_counter() - started < 0.5  # 0.03 s on an idle machine
