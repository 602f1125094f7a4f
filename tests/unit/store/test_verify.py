"""Verify names what is damaged; what it does not look at it does not claim."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.records import Records
from dsbuild.store import Realisation, Store, verify
from dsbuild.store.listing import BLOCK

Make = Callable[..., Records]


def fill(store: Store, make_records: Make) -> list[Digest]:
    found = []
    for seed in range(4):
        records = make_records(4000 if seed == 0 else 5, seed)
        made = store.write(records.schema, [records])
        store.realise(of_bytes(Domain.ACTION, bytes([seed])), Realisation(content=made.content, records=made.records))
        found.append(made.content)
    return found


def test_sound(store: Store, make_records: Make) -> None:
    contents = fill(store, make_records)
    done: list[tuple[int, int]] = []
    report = verify(store, deep=True, progress=lambda a, b: done.append((a, b)))
    assert (report.objects, report.realisations, report.damage) == (4, 4, ())
    assert report.bytes == sum(store.object(c).size for c in contents)
    assert done[-1] == (4, 4)


def test_place_of_damage(store: Store, make_records: Make) -> None:
    content = fill(store, make_records)[0]
    path = Path(store.object(content).path) / "data.zarr" / "input_ids" / "values" / "c.0"
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[BLOCK + 5] ^= 1
    path.write_bytes(data)
    (damage,) = verify(store).damage
    assert damage.name == f"object {content.short}"
    assert damage.path == str(path.relative_to(store.root))
    assert damage.message == f"block 1 (from byte {BLOCK}) differs from what was published"
    assert verify(store, quick=True).damage == ()


def test_quick_sees_sizes(store: Store, make_records: Make) -> None:
    content = fill(store, make_records)[1]
    path = Path(store.object(content).path) / "data.zarr" / "input_ids" / "values" / "c.0"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"x")
    assert [d.message[:4] for d in verify(store, quick=True).damage] == ["has "]


def test_sample(store: Store, make_records: Make) -> None:
    fill(store, make_records)
    assert verify(store, sample=Fraction(0)).objects == 0
    assert verify(store, sample=Fraction(1)).objects == 4
    counts = {verify(store, sample=Fraction(1, 2), salt=bytes([i])).objects for i in range(20)}
    assert len(counts) > 1


def test_deep_sees_an_object_under_a_wrong_name(store: Store, make_records: Make) -> None:
    """Whoever can write all of an object can make it consistent; only the columns tell."""
    content = fill(store, make_records)[1]
    found = store.object(content)
    wrong = Digest(b"w" * 32)
    data = found.listing.data.replace(content.hex.encode(), wrong.hex.encode())
    home = Path(store.layout.encoding(wrong, of_bytes(Domain.ENCODING, data)))
    home.parent.mkdir(parents=True)
    Path(found.path).rename(home)
    (home / "files").unlink()
    (home / "files").write_bytes(data)
    assert verify(store).damage == ()
    (damage,) = verify(store, deep=True).damage
    assert damage.message == f"its columns have content {content.short}"
