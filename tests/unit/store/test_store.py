"""The handle: opening, small records, prefixes, reading only."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError, NonDeterministicError, NotFoundError, StorageError
from dsbuild.records import Records
from dsbuild.store import Store


def put(store: Store, data: bytes) -> Digest:
    digest = of_bytes(Domain.DERIVATION, data)
    store.put_derivation(digest, data)
    return digest


def test_open(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="not a store"):
        Store.open(tmp_path / "s")
    with pytest.raises(NotFoundError):
        Store.open(tmp_path / "s", create=True, readonly=True)
    made = Store.open(tmp_path / "s", create=True)
    assert (tmp_path / "s" / "format").read_text() == "dsbuild store 1\n"
    assert (tmp_path / "s" / "locks" / "gc").is_file()
    assert Store.open(tmp_path / "s") == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_open_completes_a_store_that_was_half_made(tmp_path: Path) -> None:
    (tmp_path / "s" / "objects").mkdir(parents=True)
    (tmp_path / "s" / "README.md").touch()
    (tmp_path / "s" / ".gitignore").touch()
    assert Store.open(tmp_path / "s", create=True).root == tmp_path / "s"


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(StorageError, match="photos"):
        Store.open(tmp_path, create=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos"]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    with pytest.raises(StorageError, match="a file"):
        Store.open(tmp_path / "s", create=True)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dsbuild store 2\n", StorageError),
        ("", CorruptError),
        ("dsbuild store 1", CorruptError),
        ("x" * 99, CorruptError),
    ],
)
def test_format(store: Store, text: str, error: type[Exception]) -> None:
    (store.root / "format").chmod(0o644)
    (store.root / "format").write_text(text)
    with pytest.raises(error):
        Store.open(store.root)


def test_derivations(store: Store) -> None:
    digest = put(store, b'{"inputs":[]}')
    put(store, b'{"inputs":[]}')
    assert store.derivation(digest) == b'{"inputs":[]}'
    assert store.derivation(Digest(bytes(32))) is None
    with pytest.raises(ValueError, match="not the digest"):
        store.put_derivation(digest, b"{}")
    path = Path(store.layout.derivation(digest))
    path.chmod(0o644)
    path.write_bytes(b'{"inputs":[ }')
    with pytest.raises(CorruptError):
        store.derivation(digest)
    put(store, b'{"inputs":[]}')
    assert store.derivation(digest) == b'{"inputs":[]}'


def test_resolve(store: Store) -> None:
    digests = [put(store, str(i).encode()) for i in range(20)]
    for digest in digests:
        assert store.resolve(digest.hex) == digest
        assert store.resolve(digest.hex[:16]) == digest
    first = [d for d in digests if d.hex[0] == digests[0].hex[0]]
    if len(first) > 1:
        with pytest.raises(NotFoundError, match="begins"):
            store.resolve(digests[0].hex[0])
    by_digit: dict[str, int] = {}
    for digest in digests:
        by_digit[digest.hex[0]] = by_digit.get(digest.hex[0], 0) + 1
    with pytest.raises(NotFoundError) as caught:
        store.resolve(max(by_digit, key=lambda digit: by_digit[digit]))
    assert caught.value.kind == "ambiguous"
    for bad in ("", "xyz", "../..", "0" * 65, "f" * 64, "ABC"):
        with pytest.raises(NotFoundError) as caught:
            store.resolve(bad)
        assert caught.value.kind == "not-found"


def test_cut_tables(store: Store) -> None:
    key = Digest(b"k" * 32)
    assert store.cut_table(key) is None
    store.put_cut_table(key, b"cuts")
    store.put_cut_table(key, b"cuts")
    assert store.cut_table(key) == b"cuts"
    with pytest.raises(NonDeterministicError):
        store.put_cut_table(key, b"others")
    path = Path(store.layout.cuts(key))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"x")
    assert store.cut_table(key) is None
    store.put_cut_table(key, b"others")
    assert store.cut_table(key) == b"others"


def test_reading_only(store: Store, make_records: Callable[..., Records]) -> None:
    records = make_records(3)
    content = store.write(records.schema, [records]).content
    reader = Store.open(store.root, readonly=True)
    assert reader.object(content).records == 3
    for attempt in (
        lambda: reader.write(records.schema, [records]),
        lambda: reader.put_cut_table(content, b""),
        lambda: reader.partial(content, []),
        lambda: reader.forget_partial(content),
    ):
        with pytest.raises(StorageError) as caught:
            attempt()
        assert caught.value.kind == "read-only"
    with reader.lease([content]) as held:
        assert held.path is None
