"""Run by test_jax.py in a process of its own, where JAX has 8 devices: a host's devices are counted once, at its start."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from dsbuild import open_dataset
from dsbuild.errors import BuildError, LockError
from dsbuild.load import Dataset, RangeError
from dsbuild.load.jax import JaxBatches
from dsbuild.order.partition import Schedule

SIZE = 16


class Counted:
    """A dataset that notes which rows are read, adds columns of other ranks, and can be told to fail."""

    def __init__(self, dataset: Dataset) -> None:
        self.inner, self.digest, self.split = dataset, dataset.digest, dataset.split
        self.read: list[tuple[int, int]] = []
        self.broken = len(dataset)

    def __len__(self) -> int:
        return len(self.inner)

    def share(self, step: int, size: Any) -> tuple[int, int]:
        return self.inner.share(step, size)

    def examples(self, start: int, stop: int, *, dtype: Any, columns: Any) -> dict[str, np.ndarray]:
        self.read.append((start, stop))
        if start <= self.broken < stop:
            raise BuildError(f"example {self.broken}: broken", kind="bad-record")
        found = self.inner.examples(start, stop, dtype=dtype)
        at = np.arange(start, stop, dtype=np.int32)
        found["number"] = at
        found["audio"] = (at[:, None, None] * 100 + np.arange(12, dtype=np.int32).reshape(6, 2)).astype(np.float32)
        found["ragged"] = np.zeros(stop - start + 1, np.int32)
        found["wide"] = at.astype(np.int64) << 40
        names = [n for n in found if n not in ("ragged", "wide")] if columns is None else columns
        return {n: found[n] for n in names}

    def rows(self) -> list[int]:
        return [i for start, stop in self.read for i in range(start, stop)]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    project = Path(os.environ["DSBUILD_JAX_PROJECT"])
    return open_dataset(project / "tiny.toml", store=project / "store")


@pytest.fixture
def counted(dataset: Dataset) -> Counted:
    return Counted(dataset)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    gc.collect()
    assert [t.name for t in threading.enumerate() if "dsbuild" in t.name] == []


def mesh(*shape: int, names: tuple[str, ...] = ("data", "model"), devices: Any = None) -> Mesh:
    chosen = np.array(jax.devices() if devices is None else devices)
    return Mesh(chosen.reshape(shape), names[: len(shape)])


def batches(dataset: Any, sharding: Any, size: Any = SIZE, **options: Any) -> JaxBatches:
    found = JaxBatches(dataset, size, sharding, **options)
    if isinstance(dataset, Counted):
        assert dataset.read.pop(0) == (0, 1) and dataset.read == []  # one example, to learn the columns
    return found


def expected(counted: Counted, start: int, stop: int, names: Any, dtype: Any = np.int32) -> dict[str, np.ndarray]:
    return Counted(counted.inner).examples(start, stop, dtype=dtype, columns=list(names))


def check(array: jax.Array, want: np.ndarray, sharding: Any) -> None:
    assert array.shape == want.shape and array.dtype == want.dtype
    assert array.sharding.is_equivalent_to(sharding, array.ndim) and array.committed
    assert np.array_equal(np.asarray(array), want)
    assert {s.device for s in array.addressable_shards} == sharding.device_set
    for shard in array.addressable_shards:
        assert np.array_equal(np.asarray(shard.data), want[shard.index])


def test_there_are_eight_devices() -> None:
    assert jax.device_count() == 8 and jax.process_count() == 1


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("shape", [(8, 1), (4, 2), (2, 4), (1, 8)])
def test_data_axis_replicated_over_model(counted: Counted, shape: tuple[int, int], prefetch: int) -> None:
    sharding = NamedSharding(mesh(*shape), P("data"))
    columns = ("input_ids", "labels", "segment_ids", "position_ids")
    with batches(counted, sharding, columns=columns, prefetch=prefetch) as found:
        for step in range(3):
            batch = next(found)
            want = counted.inner.batch(step, SIZE)
            assert list(batch) == list(want) == list(columns)
            for name, array in batch.items():
                assert array.sharding == sharding
                check(array, want[name], sharding)
    # replicas share one reading, and neighbours are read together
    assert counted.read[:3] == [(step * SIZE, (step + 1) * SIZE) for step in range(3)]
    assert len(counted.read) <= 3 + prefetch


@pytest.mark.parametrize(
    "spec",
    [P(), P(None, "model"), P("data", "model"), P("model", "data"), P(("data", "model")), P(None, ("model", "data"))],
    ids=str,
)
def test_any_spec(counted: Counted, spec: P) -> None:
    sharding = NamedSharding(mesh(2, 4), spec)
    found = batches(counted, sharding, columns=["input_ids", "labels"], prefetch=0)
    want = counted.inner.batch(5, SIZE)
    for name, array in found.batch(5).items():
        check(array, want[name], sharding)
    assert counted.read == [(5 * SIZE, 6 * SIZE)]


def test_a_mesh_of_some_devices_in_another_order(counted: Counted) -> None:
    devices = [jax.devices()[i] for i in (6, 1, 3, 4)]
    sharding = NamedSharding(mesh(4, devices=devices), P("data"))
    batch = batches(counted, sharding, prefetch=0).batch(0)
    check(batch["input_ids"], counted.inner.batch(0, SIZE)["input_ids"], sharding)


def test_a_single_device_and_another_memory(counted: Counted) -> None:
    host = NamedSharding(mesh(4, 2), P("data"), memory_kind="pinned_host")
    for sharding in (SingleDeviceSharding(jax.devices()[3]), host):
        counted.read.clear()
        batch = batches(counted, sharding, columns=["input_ids"], prefetch=0).batch(1)
        check(batch["input_ids"], counted.inner.batch(1, SIZE)["input_ids"], sharding)
        assert batch["input_ids"].sharding.memory_kind == sharding.memory_kind


def test_columns_of_other_ranks(counted: Counted) -> None:
    at = mesh(2, 2, 2, names=("data", "seq", "model"))
    sharding = NamedSharding(at, P("data", "seq", "model"))
    batch = batches(counted, sharding, prefetch=0).batch(2)
    for name, want in expected(counted, 2 * SIZE, 3 * SIZE, batch).items():
        check(batch[name], want, NamedSharding(at, P(*("data", "seq", "model")[: want.ndim])))
    assert batch["number"].ndim == 1 and batch["audio"].ndim == 3


def test_a_sharding_for_each_column(counted: Counted) -> None:
    at = mesh(2, 4)
    shardings = {"number": NamedSharding(at, P("model")), "audio": NamedSharding(at, P("data"))}
    batch = batches(counted, shardings, prefetch=0).batch(2)
    assert list(batch) == list(shardings)
    for name, want in expected(counted, 2 * SIZE, 3 * SIZE, batch).items():
        check(batch[name], want, shardings[name])
    assert counted.read == [(2 * SIZE, 3 * SIZE)]
    with pytest.raises(RangeError, match="column labels: its sharding is None"):
        JaxBatches(counted, SIZE, shardings, columns=["number", "labels"])


def test_dtypes(counted: Counted) -> None:
    sharding = NamedSharding(mesh(8), P("data"))
    batch = batches(counted, sharding, dtype=np.uint16, columns=["input_ids", "labels"], prefetch=0).batch(0)
    want = counted.inner.batch(0, SIZE, dtype=np.uint16)
    assert batch["input_ids"].dtype == np.uint16 and batch["labels"].dtype == np.int32
    check(batch["input_ids"], want["input_ids"], sharding)
    with pytest.raises(RangeError, match="int64, which JAX would narrow to int32"):
        JaxBatches(counted, SIZE, sharding, dtype=np.int64, columns=["input_ids"])
    with pytest.raises(RangeError, match="column wide: int64"):
        JaxBatches(counted, SIZE, sharding, columns=["wide"])


@pytest.mark.parametrize("device_prefetch", [False, True])
def test_wide_numbers_with_x64(counted: Counted, device_prefetch: bool) -> None:
    sharding = NamedSharding(mesh(8), P("data"))
    with jax.enable_x64(True):
        found = batches(counted, sharding, columns=["wide"], device_prefetch=device_prefetch)
        if device_prefetch:  # the setting is the caller's thread's alone: refused, never cut
            with found, pytest.raises(RangeError, match="column wide: int64"):
                next(found)
        else:
            with found:
                check(next(found)["wide"], expected(counted, 0, SIZE, ["wide"])["wide"], sharding)


@pytest.mark.parametrize(
    ("size", "shape", "spec", "said"),
    [
        (12, (8, 1), P("data"), r"batch size 12: the sharding splits it 8 ways \(mesh axes data\)"),
        (12, (2, 4), P(("data", "model")), r"splits it 8 ways \(mesh axes data, model\)"),
        (Schedule(starts=(0, 5), sizes=(16, 20)), (8, 1), P("data"), "batch size 20"),
        (16, (8, 1), P(None, None, "data"), "column audio: axis 2 of length 2: the sharding splits it 8 ways"),
        (16, (4, 2), P(None, "data"), "column audio: axis 1 of length 6: the sharding splits it 4 ways"),
    ],
)
def test_uneven_is_refused(counted: Counted, size: Any, shape: tuple[int, int], spec: P, said: str) -> None:
    with pytest.raises(RangeError, match=said) as caught:
        JaxBatches(counted, size, NamedSharding(mesh(*shape), spec))
    assert caught.value.kind == "out-of-range"
    hint = caught.value.diagnostics[0].hint
    assert hint is not None and ("a multiple of 8, such as 16" in hint or "8, such as 24" in hint or "axis" in hint)


@pytest.mark.parametrize(
    "sharding",
    [
        None,
        "data",
        P("data"),
        NamedSharding(AbstractMesh((8,), ("data",)), P("data")),
    ],
    ids=lambda s: type(s).__name__,
)
def test_what_is_no_sharding_is_refused(counted: Counted, sharding: Any) -> None:
    with pytest.raises(RangeError, match="places no array") as caught:
        batches(counted, sharding)
    assert caught.value.kind == "bad-type"


def test_unconstrained_is_refused(counted: Counted) -> None:
    auto = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    with pytest.raises(RangeError, match="UNCONSTRAINED"):
        batches(counted, NamedSharding(auto, P(P.UNCONSTRAINED)))


def test_numbers_that_make_no_sense(counted: Counted) -> None:
    sharding = NamedSharding(mesh(8), P("data"))
    for size in (0, -8):
        with pytest.raises(RangeError, match="at least 1"):
            JaxBatches(counted, size, sharding)
    for options in ({"prefetch": -1}, {"threads": 0}):
        with pytest.raises(RangeError, match="prefetch"):
            JaxBatches(counted, SIZE, sharding, **options)
    with pytest.raises(RangeError, match="column ragged: has not one row an example"):
        JaxBatches(counted, SIZE, sharding, columns=["ragged"])
    with pytest.raises(RangeError, match="column cu_seqlens: has not one row an example"):
        counted.inner.jax(SIZE, sharding, columns=["cu_seqlens"])
    with pytest.raises(RangeError, match="step -1: must be at least 0"):
        JaxBatches(counted, SIZE, sharding, start=-1)
    counted.read.clear()
    found = batches(counted, sharding)
    with pytest.raises(RangeError, match="step -1: must be at least 0"):
        found.seek(-1)
    for step in (-1, counted.inner.steps(SIZE)):
        with pytest.raises(RangeError, match="whole"):
            found.batch(step)
    found.seek(counted.inner.steps(SIZE))
    assert list(found) == []


@pytest.mark.parametrize("device_prefetch", [False, True])
@pytest.mark.parametrize(("prefetch", "threads"), [(0, 1), (1, 1), (5, 3)])
def test_a_schedule_to_the_end(counted: Counted, prefetch: int, threads: int, device_prefetch: bool) -> None:
    schedule = Schedule(starts=(0, 3, 5), sizes=(8, 16, 64))
    sharding = NamedSharding(mesh(4, 2), P("data"))
    options = {"prefetch": prefetch, "threads": threads, "device_prefetch": device_prefetch, "columns": ["number"]}
    found = batches(counted, sharding, schedule, **options)
    got = [np.asarray(b["number"]) for b in found]
    assert [len(g) for g in got[:7]] == [8, 8, 8, 16, 16, 64, 64]
    assert len(got) == schedule.steps(len(counted)) == found.step
    assert np.concatenate(got).tolist() == list(range(found.position))
    assert len(counted) - found.position < 64
    assert sorted(counted.rows()) == list(range(found.position))  # each once
    assert list(found) == []


def test_seek_and_state(counted: Counted) -> None:
    sharding = NamedSharding(mesh(4, 2), P("data"))
    with batches(counted, sharding, columns=["number"]) as found:
        found.seek(7)
        assert np.asarray(next(found)["number"]).tolist() == list(range(7 * SIZE, 8 * SIZE))
        state = found.state_dict()
        assert state == {
            "dataset": counted.digest.hex,
            "split": "train",
            "step": 8,
            "position": 8 * SIZE,
        }
        want = next(found)["number"]
    counted.read.clear()
    with batches(counted, NamedSharding(mesh(8), P("data")), columns=["number"]) as again:
        again.load_state_dict(state)
        assert np.array_equal(np.asarray(next(again)["number"]), np.asarray(want))
    # the position counts, so batches may have another size from there on
    for size in (24, Schedule(starts=(0, 9), sizes=(8, 24))):
        counted.read.clear()
        with batches(counted, sharding, size, columns=["number"]) as other:
            other.load_state_dict(state)
            got = [np.asarray(next(other)["number"]) for _ in range(3)]
            assert np.concatenate(got).tolist() == list(range(128, other.position))
            assert (len(got[0]), len(got[2])) == ((24, 24) if size == 24 else (8, 24))
    counted.read.clear()
    refusing = batches(counted, sharding)
    with pytest.raises(LockError, match="not of") as caught:
        refusing.load_state_dict(state | {"dataset": "ab" * 32})
    assert "ab" * 32 in str(caught.value) and counted.digest.hex in str(caught.value)
    with pytest.raises(LockError, match=r"/valid, not of .*/train"):
        refusing.load_state_dict(state | {"split": "valid"})
    with pytest.raises(LockError, match="position is -16"):
        refusing.load_state_dict(state | {"position": -16})
    assert (refusing.step, refusing.position) == (0, 0)


@pytest.mark.parametrize("device_prefetch", [False, True])
def test_errors_come_in_their_place(counted: Counted, device_prefetch: bool) -> None:
    counted.broken = 2 * SIZE + 3
    sharding = NamedSharding(mesh(8), P("data"))
    found = batches(counted, sharding, prefetch=4, threads=2, device_prefetch=device_prefetch)
    assert [next(found)["number"][0] for _ in range(2)] == [0, SIZE]
    for _ in range(2):
        with pytest.raises(BuildError, match="example 35: broken"):
            next(found)
        assert found.step == 2
    counted.broken = len(counted)
    assert next(found)["number"][0] == 2 * SIZE
    found.close()


def test_threads_end(counted: Counted) -> None:
    sharding = NamedSharding(mesh(8), P("data"))
    before = threading.active_count()
    for _ in range(40):
        found = JaxBatches(counted, SIZE, sharding, columns=["number"], threads=2)
        next(found)
        found.close()
        next(
            JaxBatches(counted, SIZE, sharding, columns=["number"])
        )  # dropped, not closed: told to end, not waited for
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_batch_does_not_change_later(counted: Counted) -> None:
    """On CPU a device's array is the host's memory itself."""
    with batches(counted, NamedSharding(mesh(8), P("data")), columns=["input_ids"]) as found:
        kept = [next(found)["input_ids"] for _ in range(6)]
    for step, array in enumerate(kept):
        assert np.array_equal(np.asarray(array), counted.inner.batch(step, SIZE)["input_ids"])


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_a_jitted_step(counted: Counted, kind: str) -> None:
    types = (getattr(jax.sharding.AxisType, kind),) * 2
    at = jax.make_mesh((4, 2), ("data", "model"), axis_types=types)
    total = jax.jit(lambda b: (b["input_ids"] * (b["labels"] >= 0)).sum())
    batch = batches(counted, NamedSharding(at, P("data")), prefetch=0).batch(3)
    want = counted.inner.batch(3, SIZE)
    assert int(total(batch)) == int((want["input_ids"] * (want["labels"] >= 0)).sum())
