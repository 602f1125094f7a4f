"""Damage that a loader meets is told in its place, with source, part and record, and is never served or a crash."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dsbuild.errors import BuildError, CorruptError, DsbuildError, NotFoundError
from dsbuild.load import Dataset, open_dataset
from dsbuild.load import loader as loading
from dsbuild.schema import Field
from dsbuild.store import Store, objects
from dsbuild.store.flat import FlatPart

IDS = Field(name="input_ids", dtype="uint16", shape=(None,))
LABELS = Field(name="labels", dtype="int32", shape=(None,))
AUDIO = Field(name="audio", dtype="float32", shape=(None,))
PARTS, ROWS, LENGTH, SIZE = 3, 800, 64, 20
OPTIONS: list[dict[str, Any]] = [{"prefetch": 0}, {"prefetch": 2}, {"prefetch": 4, "threads": 3}]


@dataclass(frozen=True)
class Sound:
    """A store with datasets of the same records, by name, and what their batches are."""

    root: Path
    hashes: dict[str, str]
    batches: dict[str, list[dict[str, np.ndarray]]]


@pytest.fixture(scope="module")
def sound(shelf: Any, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    mine = type(shelf)(tmp_path_factory.mktemp("sound") / "store")
    draw = np.random.default_rng(1)
    made = [
        [draw.integers(1, 60_000, 65 if row % 3 else 2 + row % 60).tolist() for row in range(ROWS)]
        for _ in range(PARTS)
    ]
    parts = [{"input_ids": (IDS, m), "labels": (LABELS, m), "audio": (AUDIO, [r[:40] for r in m])} for m in made]
    records = mine.records(parts)
    some = [[row for row in range(ROWS) if row % (6 + part)] for part in range(PARTS)]
    datasets = {
        "concat": mine.dataset(records, length=LENGTH, mask="document"),
        "split": mine.dataset(mine.split(records, some), length=LENGTH),
        "fit": mine.dataset(
            mine.pack(records, [[[r] for r in rows] for rows in some], LENGTH), length=LENGTH, pack="fit"
        ),
        "none": mine.dataset(records, length=LENGTH, pack="none", columns=["audio", "input_ids"], shapes={"audio": 40}),
    }
    return Sound(
        root=mine.store.root,
        hashes={name: d.digest.hex for name, d in datasets.items()},
        batches={name: [d.batch(step, SIZE) for step in range(d.steps(SIZE))] for name, d in datasets.items()},
    )


@dataclass(frozen=True)
class Copy:
    """A store that a test may damage."""

    sound: Sound
    root: Path

    def dataset(self, name: str) -> Dataset:
        return open_dataset(self.sound.hashes[name], store=self.root)

    def objects(self, name: str, kind: str = "records") -> list[Path]:
        """The directories of the parts of a node under the dataset ``name``."""
        (source,) = self.dataset(name).sources
        manifest = getattr(source, kind)
        store = Store.open(self.root)
        return [Path(store.object(manifest.content(part)).path) for part in range(len(manifest))]


@pytest.fixture
def copy(sound: Sound, tmp_path: Path) -> Iterator[Copy]:
    shutil.copytree(sound.root, tmp_path / "store")
    for path in (tmp_path / "store").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield Copy(sound, tmp_path / "store")


def flip(path: Path, at: float = 0.9) -> None:
    """In place, as a disk does it; late in the file, so that the first block stays."""
    with path.open("r+b") as file:
        place = int(path.stat().st_size * at)
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def first_error(dataset: Dataset, name: str) -> int:
    """The first step whose batch, asked for alone, is an error."""
    for step in range(dataset.steps(SIZE)):
        try:
            dataset.batch(step, SIZE)
        except DsbuildError:
            return step
    raise AssertionError(f"{name}: nothing is wrong")


def equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return list(one) == list(other) and all(one[n].tobytes() == other[n].tobytes() for n in one)


def told_in_its_place(copy: Copy, name: str, options: dict[str, Any]) -> DsbuildError:
    """Sound batches up to the first one that is an error by itself, and then the error, again and again."""
    last = first_error(copy.dataset(name), name)
    with copy.dataset(name).loader(SIZE, **options) as loader:
        for step in range(last):
            assert equal(next(loader), copy.sound.batches[name][step])
        for _ in range(2):
            with pytest.raises(DsbuildError) as caught:
                next(loader)
            assert loader.step == last
    return caught.value


VALUES = "data.zarr/input_ids/values/c.0"
DAMAGES: dict[str, tuple[str, str, str, Callable[[Path], None], str]] = {
    # dataset, node, file of its second part, what happens to it, what is told
    "flipped": ("concat", "records", VALUES, flip, r"part 1, record \d+: .*values/c\.0, block 1 .* differs"),
    "flipped under a split": ("split", "records", VALUES, flip, r"part 1, record \d+: .*block 1 "),
    "flipped under a packing": ("fit", "records", VALUES, flip, r"part 1, record \d+: .*block 1 "),
    "flipped in a record": ("none", "records", VALUES, flip, r"part 1, record \d+: .*block 1 "),
    "flipped labels": ("concat", "records", "data.zarr/labels/values/c.0", flip, r"part 1, record \d+: .*'labels'"),
    "flipped further": ("none", "records", "data.zarr/audio/values/c.0", flip, r"part 1, record \d+: .*'audio'"),
    "truncated": ("concat", "records", VALUES, truncate, r"part 1: .*has \d+ bytes, not the \d+"),
    "truncated labels": ("split", "records", "data.zarr/labels/values/c.0", truncate, r"part 1: .*has \d+ bytes"),
    "gone": ("fit", "records", VALUES, remove, r"part 1: .*is gone"),
    "flipped offsets": ("concat", "records", "data.zarr/input_ids/offsets/c.0", flip, r"part 1: .*offsets"),
    "flipped selection": ("split", "selection", "data.zarr/row/c.0", flip, r"part 1: .*'row'.*differs"),
    "flipped ends": ("split", "selection", "data.zarr/end/c.0", flip, r"part 1: .*'end'.*differs"),
    "flipped packing": ("fit", "packing", "data.zarr/row/values/c.0", flip, r"part 1: .*'row'.*differs"),
    "flipped listing": ("none", "records", "files", flip, r"part 1: object [0-9a-f]{12}"),
    "flipped digests": ("none", "records", "blocks", flip, r"part 1: object [0-9a-f]{12}: blocks"),
    "deleted": ("concat", "records", "", remove, r"part 1: object [0-9a-f]{12}"),
    "deleted selection": ("split", "selection", "", remove, r"part 1: object [0-9a-f]{12}"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("options", OPTIONS, ids=["none", "one", "three"])
def test_damage(copy: Copy, damage: str, options: dict[str, Any]) -> None:
    name, kind, file, action, message = DAMAGES[damage]
    action(copy.objects(name, kind)[1] / file)
    error = told_in_its_place(copy, name, options)
    (source,) = copy.dataset(name).sources
    assert isinstance(error, NotFoundError if damage.startswith("deleted") else CorruptError)
    assert not isinstance(error, NotFoundError) or error.kind == "not-found"
    text = str(error)
    assert text.startswith(f"source {source.digest.short}, ")
    assert re.search(message, text), text


@pytest.mark.parametrize("options", OPTIONS, ids=["none", "one", "three"])
def test_negative_control(copy: Copy, options: dict[str, Any]) -> None:
    for name, batches in copy.sound.batches.items():
        with copy.dataset(name).loader(SIZE, **options) as loader:
            assert all(equal(got, want) for got, want in zip(loader, batches, strict=True))


@pytest.mark.parametrize("options", OPTIONS, ids=["none", "one", "three"])
def test_after_a_repair_the_loader_goes_on(copy: Copy, options: dict[str, Any]) -> None:
    path = copy.objects("concat")[1] / VALUES
    flip(path)
    last = first_error(copy.dataset("concat"), "concat")
    with copy.dataset("concat").loader(SIZE, **options) as loader:
        for _ in range(last):
            next(loader)
        with pytest.raises(CorruptError):
            next(loader)
        flip(path)
        assert all(equal(got, want) for got, want in zip(loader, copy.sound.batches["concat"][last:], strict=True))


def test_an_error_of_any_kind_arrives(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread raises, the caller sees, with the thread's own place in the traceback."""
    right = loading.gather

    def gather(stretch: Any, *arguments: Any) -> Any:
        if int(stretch.examples[0]) >= 40:
            raise OSError(5, "Input/output error")
        return right(stretch, *arguments)

    monkeypatch.setattr(loading, "gather", gather)
    loader = copy.dataset("concat").loader(SIZE, threads=3, prefetch=4)
    with pytest.raises(OSError, match="Input/output error") as caught:
        for _ in range(100):
            next(loader)
    assert any(entry.name == "gather" for entry in caught.traceback)


def test_values_that_do_not_fit_are_told_with_their_record(shelf: Any) -> None:
    wide = Field(name="labels", dtype="int64", shape=(None,))
    ids = [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
    labels = [[1, 2, 3], [4, 5, 1 << 40, 7], [8, 9]]
    for pack in ("concat", "none"):
        made = shelf.dataset(shelf.records([{"input_ids": (IDS, ids), "labels": (wide, labels)}]), pack=pack)
        with pytest.raises(BuildError, match=rf"part 0, record 1: column 'labels' has {1 << 40}, .* int32") as caught:
            next(made.loader(1 if pack == "concat" else 3))
        assert caught.value.kind == "bad-value"
        assert (1 << 40) in made.examples(0, len(made), dtype=np.int64)["labels"]


def test_labels_that_are_not_one_a_token(shelf: Any) -> None:
    """Sums that agree are not enough: two records that lie about each other would shift all labels between them."""
    ids = [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
    labels = [[1, 2, 3, 4], [5, 6, 7], [8, 9]]
    for pack in ("concat", "none"):
        made = shelf.dataset(shelf.records([{"input_ids": (IDS, ids), "labels": (LABELS, labels)}]), pack=pack)
        with pytest.raises(BuildError, match="part 0, record 0: column 'labels' has 4 values for 3 tokens"):
            made.batch(0, 1)
        made.batch(0, 1, columns="input_ids")


def hostile(change: Callable[[str, np.ndarray], np.ndarray | None]) -> Any:
    """Objects whose offsets are changed before they are hashed: every digest agrees, and the numbers lie."""
    right = objects.gather

    def gather(schema: Any, blocks: Any) -> FlatPart:
        part = right(schema, blocks)
        columns = {}
        for name, column in part.columns.items():
            told = None if column.offsets is None else change(name, column.offsets.copy())
            columns[name] = column if told is None else replace(column, offsets=told.astype("<i8"))
        return replace(part, columns=columns)

    return patch.object(objects, "gather", gather)


def lies(row: int, value: int, column: str) -> Callable[[str, np.ndarray], np.ndarray | None]:
    def change(name: str, offsets: np.ndarray) -> np.ndarray | None:
        if name != column:
            return None
        offsets[row] = value
        return offsets

    return change


LIES = [
    (3, 10**6),
    (3, 1 << 40),
    (3, (1 << 63) - 1),
    (3, -5),
    (3, -(1 << 63)),
    (0, 4),
    (0, -4),
    (-1, 30),
    (-1, 10**9),
    (-1, 0),
]


@pytest.mark.parametrize("pack", ["concat", "fit", "none"])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("column", ["input_ids", "labels", "audio"])
def test_offsets_that_lead_outside(shelf: Any, pack: str, lie: tuple[int, int], column: str) -> None:
    rows = [[n] * 5 for n in range(12)]
    part = {"input_ids": (IDS, rows), "labels": (LABELS, rows)}
    if pack == "none":
        part["audio"] = (AUDIO, rows)
    elif column == "audio":
        column = "labels"
    with hostile(lies(*lie, column)):
        at = shelf.records([part])
    if pack == "fit":
        at = shelf.pack(at, [[[row, row + 1] for row in range(0, 12, 2)]], 9)
    further = {"columns": ["audio", "input_ids", "labels"], "shapes": {"audio": 5}} if pack == "none" else {}
    for mask in ("none", "document"):
        made = shelf.dataset(at, pack=pack, length=9, mask=mask, **further)
        for options in OPTIONS:
            with made.loader(2, **options) as loader, pytest.raises(DsbuildError, match=r"part 0"):
                for _ in loader:
                    pass
        with pytest.raises(DsbuildError, match=r"part 0"):
            made.examples(0, len(made))


@pytest.mark.parametrize("rows", [[0, 3, 99], [-1, 3], [0, -(1 << 62)], [0, 1 << 62, 3]])
def test_selections_that_lead_outside(shelf: Any, rows: list[int]) -> None:
    at = shelf.records([{"input_ids": (IDS, [[n] * 5 for n in range(12)])}])
    view = shelf.split(at, [rows], [[5 * (n + 1) for n in range(len(rows))]])
    for pack in ("concat", "none"):
        made = shelf.dataset(view, pack=pack, length=3, overlong="cut")
        with pytest.raises(CorruptError, match=r"part 0: selection names row -?\d+ of 12"):
            made.batch(0, 1)


@pytest.mark.parametrize(
    "ends", [[5, 10, 15, 99], [5, 4, 15, 20], [6, 10, 15, 20], [5, 1 << 62, 15, 20], [-5, 0, 5, 10]]
)
def test_selections_that_count_wrong(shelf: Any, ends: list[int]) -> None:
    at = shelf.records([{"input_ids": (IDS, [[n] * 5 for n in range(12)])}])
    made = shelf.dataset(shelf.split(at, [[0, 3, 5, 9]], [ends]), length=3)
    with pytest.raises(CorruptError, match="part 0: selection counts other tokens than its records have"):
        made.batch(0, 1)


@pytest.mark.parametrize("bins", [[[0, 99]], [[-1]], [[0], [], [1]], [[1 << 62]]])
def test_packings_that_lead_outside(shelf: Any, bins: list[list[int]]) -> None:
    at = shelf.records([{"input_ids": (IDS, [[n] * 5 for n in range(12)])}])
    view = shelf.pack(at, [bins], 9, [10])
    for pack in ("fit", "none"):
        made = shelf.dataset(view, pack=pack, length=9, overlong="drop")
        with pytest.raises(CorruptError, match=r"part 0: packing (names row -?\d+ of 12|has an example without)"):
            made.examples(0, len(made))


def test_a_manifest_that_counts_others(shelf: Any) -> None:
    """More examples than there are: of rows, and of tokens."""
    rows = [[n] * 5 for n in range(12)]
    records = shelf.records([{"input_ids": (IDS, rows)}])
    split = shelf.split(records, [[0, 1, 2]])
    for at, pack in ((records, "none"), (records, "concat"), (split, "none"), (split, "concat")):
        made = shelf.dataset(at, pack=pack, length=4, overlong="cut")
        (source,) = made.sources
        manifest = source.selection or source.records
        more = (
            {"records": manifest.records * 3}
            if pack == "none"
            else {"elements": {"input_ids": manifest.elements["input_ids"] * 3}}
        )
        lying = replace(manifest, starts={}, **more)
        with patch.object(
            Store,
            "manifest",
            lambda s, d, lying=lying, right=Store.manifest: lying if d == lying.derivation else right(s, d),
        ):
            told = open_dataset(made.digest.hex, store=shelf.store)
        with pytest.raises(CorruptError, match=r"part 0"):
            told.examples(0, len(told))
