"""Decoded bytes: right, in bounded memory, or an error with a byte."""

from __future__ import annotations

import gzip
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from dsbuild.errors import BuildError, DsbuildError
from dsbuild.readers.decompress import PIECE, pieces

NOISE = random.Random(1).randbytes(300_000)
DATA = NOISE + b"abc " * 2_000_000


def short(value: object) -> str | None:
    """Names of cases without megabytes in them."""
    return repr(value)[:24] if isinstance(value, bytes | str) else None


def zst(data: bytes, level: int = 3, **options: bool) -> bytes:
    packer = zstandard.ZstdCompressor(level=level, **options).compressobj()
    return packer.compress(data) + packer.flush()


SKIPPABLE = b"\x5a\x2a\x4d\x18\x03\0\0\0abc"
GZ = b"".join(gzip.compress(data, mtime=0) for data in (DATA[:5], b"", DATA[5:]))
ZST = SKIPPABLE + zst(DATA[:5], write_checksum=True) + zstandard.compress(b"") + zst(DATA[5:], write_checksum=True)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a", DATA),
        ("a.gz", GZ),
        ("a.GZ", GZ + b"\0" * 700_000),
        ("a.zst", ZST),
        ("a.zst", zst(DATA, 1) + SKIPPABLE),
        ("a.zst", zst(DATA, 19)),
        ("a.zst", zstandard.compress(DATA)),
    ],
    ids=short,
)
def test_ranges(tmp_path: Path, name: str, stored: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(stored)
    for start, stop in ((0, None), (0, 3), (3, 5), (7, 5_000_000), (5_000_000, None), (len(DATA), None), (0, 0)):
        found = list(pieces(path, start, stop))
        assert b"".join(found) == DATA[start:stop]
        assert all(0 < len(piece) < 2 * PIECE for piece in found)


@pytest.mark.parametrize(
    ("name", "stored", "said"),
    [
        ("a.gz", b"", "byte 0 of the compressed file: not gzip: the file is empty"),
        ("a.gz", b"hello", "byte 0 of the compressed file: not gzip"),
        ("a.gz", GZ[:-1], f"byte {len(GZ) - 1} of the compressed file: the gzip data is cut off here"),
        ("a.gz", GZ[:30_000], "byte 30000 of the compressed file: the gzip data is cut off here"),
        ("a.gz", GZ[:2], "byte 2 of the compressed file: the gzip data is cut off here"),
        ("a.gz", GZ + b"garbage", f"byte {len(GZ)} of the compressed file: something that is not gzip follows"),
        ("a.gz", GZ + b"\0" * 9 + b"garbage", f"byte {len(GZ) + 9} of the compressed file: something that is not gzip"),
        ("a.gz", GZ[:5000] + b"\xff\xff" + GZ[5002:], "the gzip data near here is damaged"),
        ("a.zst", b"", "byte 0 of the compressed file: not zstd: the file is empty"),
        ("a.zst", b"hello", "byte 0 of the compressed file: not zstd"),
        ("a.zst", ZST[:-1], f"byte {len(ZST) - 1} of the compressed file: the zstd data is cut off here"),
        ("a.zst", ZST[:30_000], "byte 30000 of the compressed file: the zstd data is cut off here"),
        ("a.zst", ZST[:14], "byte 14 of the compressed file: the zstd data is cut off here"),
        ("a.zst", ZST[:6], "byte 6 of the compressed file: the zstd data is cut off here"),
        ("a.zst", ZST + b"garbage", f"byte {len(ZST)} of the compressed file: something that is not zstd follows"),
        ("a.zst", ZST[:5000] + b"\xff\xff" + ZST[5002:], "the zstd data near here is damaged"),
        ("a.zst", ZST[:4], "byte 4 of the compressed file: the zstd data is cut off here"),
    ],
    ids=short,
)
def test_damage(tmp_path: Path, name: str, stored: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(stored)
    with pytest.raises(BuildError) as caught:
        list(pieces(path))
    assert str(caught.value).startswith(f"{path}: byte ") and said in str(caught.value)
    assert caught.value.kind == "bad-record"


@pytest.mark.parametrize("pack", [gzip.compress, zst], ids=["gz", "zst"])
def test_every_flip_and_cut_is_an_error_or_the_same_bytes_or_ends(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """No flip of a byte gives a bare exception."""
    path = tmp_path / ("a.gz" if pack is gzip.compress else "a.zst")
    stored = pack(NOISE[:200] + b"abc" * 50)
    for i in range(len(stored)):
        for damaged in (stored[:i], stored[:i] + bytes([stored[i] ^ 0x55]) + stored[i + 1 :]):
            path.write_bytes(damaged)
            try:
                found = b"".join(pieces(path))
            except BuildError as error:
                assert error.kind == "bad-record"
            else:
                assert len(damaged) == len(stored) and len(found) < 1 << 20


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.zst", zst)])
def test_a_bomb_takes_no_memory(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    one = pack(bytes(16 << 20))
    path.write_bytes(one * 16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(map(len, pieces(path))) == 256 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize("name", ["a", "a.gz", "a.zst"])
def test_a_file_that_is_shorter_than_its_cuts(tmp_path: Path, name: str) -> None:
    stored = {"a": b"hello", "a.gz": gzip.compress(b"hello"), "a.zst": zst(b"hello")}[name]
    (tmp_path / name).write_bytes(stored)
    for start, stop in ((0, 6), (6, None), (7, 9)):
        with pytest.raises(BuildError, match="changed while it was read") as caught:
            list(pieces(tmp_path / name, start, stop))
        assert caught.value.kind == "source-changed"


def test_what_is_no_readable_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    places = {"gone": "no-such-file", "file/x": "no-such-file", ".": "not-a-file", "pipe": "not-a-file"}
    if os.geteuid():
        (tmp_path / "secret").touch(mode=0)
        places["secret"] = "unreadable"
    for name, kind in places.items():
        with pytest.raises(DsbuildError) as caught:
            list(pieces(tmp_path / name))
        assert caught.value.kind == kind and str(tmp_path) in str(caught.value)


def test_errors_of_the_system_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"x")
    for error, kind in ((PermissionError(13, "no"), "unreadable"), (OSError(5, "Input/output error"), "io-error")):

        def refuse(*_: object, error: OSError = error) -> None:
            raise error

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(DsbuildError) as caught:
            list(pieces(tmp_path / "a"))
        assert caught.value.kind == kind
