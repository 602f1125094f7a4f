"""PyTorch: whatever reads the batches, and in how many processes, they are the dataset's own, in its order."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from dsbuild.errors import CorruptError, DsbuildError, LockError  # noqa: E402
from dsbuild.load import Dataset, RangeError  # noqa: E402
from dsbuild.load.torch import WORKER_ERRORS, TorchBatches, WorkerError, to_device  # noqa: E402
from dsbuild.order.partition import Schedule  # noqa: E402

pytestmark = [
    # torchdata 0.11 asks torch 2.13 for something that it no longer has a use for
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    # a machine with fewer cores than a test has workers
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    # Python 3.12 warns of every fork of a process that has threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROOT = Path(__file__).parents[2]
RECIPE = """
dsbuild = 1
name = "adapters"
seed = 11
[tokenizer]
file = "bytes"
eos = "<eos>"
[source.a]
files = "a/*.jsonl"
part_bytes = 4096
handlers = [{{ use = "tokenize" }}]
[source.b]
files = "b/*.jsonl"
part_bytes = 4096
handlers = [{{ use = "tokenize" }}]
[mixture.train]
weights = {{ a = 2, b = 1 }}
[mixture.second]
weights = {{ a = 1 }}
[examples]
length = 24
{examples}
"""
DOCUMENTS = 'mask = "document"'


def build(project: Any, *, examples: str = DOCUMENTS) -> Dataset:
    for name, files in (("a", 3), ("b", 2)):
        for n in range(files):
            rows = [{"text": f"{name}{n}.{k} " + "z" * ((n * 31 + k * 7) % 60)} for k in range(20)]
            project.jsonl(f"{name}/{n}.jsonl", rows)
    project.write("recipe.toml", RECIPE.format(examples=examples).replace("files =", "shared = true\nfiles ="))
    project.build()
    dataset: Dataset = project.open()
    return dataset


@pytest.fixture
def dataset(project: Any) -> Dataset:
    return build(project)


def read(batches: TorchBatches, workers: int = 0, **options: Any) -> list[dict[str, Any]]:
    return list(DataLoader(batches, batch_size=None, num_workers=workers, **options))


def same(got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Equal batches: of tensors or arrays, with the same columns."""
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert list(one) == list(other)
        for name in one:
            assert np.array_equal(np.asarray(one[name]), np.asarray(other[name])), name


def raised(call: Callable[[], Any]) -> DsbuildError:
    """The error of ``call`` without its frames: torch's hold the loader in a circle, and garbage collection would then
    wait 5 s for each worker."""
    try:
        call()
    except DsbuildError as error:
        return error.with_traceback(None)
    raise AssertionError("nothing was raised")


def own(dataset: Dataset, size: int, start: int = 0, **options: Any) -> list[dict[str, np.ndarray]]:
    return [dataset.batch(step, size, **options) for step in range(start, dataset.steps(size))]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_workers_change_nothing(dataset: Dataset, workers: int) -> None:
    steps = dataset.steps(8)
    assert steps > 7
    for start in (0, 3, steps - 1, steps):
        batches = dataset.torch(8, start=start)
        same(read(batches, workers), own(dataset, 8, start))
        assert len(batches) == steps - start
    assert len(DataLoader(dataset.torch(8), batch_size=None)) == steps


def test_a_workers_batch_comes_without_shared_memory(dataset: Dataset) -> None:
    (batch, *_) = read(dataset.torch(8, dtype=torch.uint16, columns=["input_ids", "cu_seqlens", "labels"]), 1)
    assert type(batch) is dict
    assert not any(t.is_shared() for t in batch.values())
    assert all(t.is_contiguous() for t in batch.values())


def test_a_worker_that_begins_elsewhere_would_be_seen(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: workers that each read everything give other batches."""
    monkeypatch.setattr("dsbuild.load.torch.get_worker_info", lambda: None)
    with pytest.raises(AssertionError):
        same(read(dataset.torch(8), 2), own(dataset, 8))


def test_an_iteration_begins_at_the_start_again(dataset: Dataset) -> None:
    for workers in (0, 2):
        loader = DataLoader(dataset.torch(8, start=2), batch_size=None, num_workers=workers)
        same([*islice(loader, 2)], own(dataset, 8, 2)[:2])
        same([*islice(loader, 3)], own(dataset, 8, 2)[:3])
    kept = DataLoader(dataset.torch(8), batch_size=None, num_workers=2, persistent_workers=True)
    for _ in range(2):
        same(list(kept), own(dataset, 8))


def test_dtypes(dataset: Dataset) -> None:
    (first, *_) = read(dataset.torch(4))
    assert {name: t.dtype for name, t in first.items()} == {
        "input_ids": torch.int64,
        "labels": torch.int64,
        "segment_ids": torch.int32,
        "position_ids": torch.int32,
    }
    for dtype in (torch.uint16, torch.uint32, torch.int32):
        for workers in (0, 1):
            batches = read(dataset.torch(4, dtype=dtype, label_dtype=torch.int32), workers)
            assert (batches[0]["input_ids"].dtype, batches[0]["labels"].dtype) == (dtype, torch.int32)
            same(batches, own(dataset, 4))
    for wrong in (torch.float32, torch.uint8, np.int32, "words"):
        with pytest.raises(RangeError, match="dtype"):
            read(dataset.torch(4, dtype=wrong))
    for wrong in (torch.float32, torch.uint32, torch.int16):
        with pytest.raises(RangeError, match="dtype"):
            dataset.torch(4, label_dtype=wrong)
    torch.nn.functional.cross_entropy(torch.zeros(4 * 24, 257), first["labels"].flatten())


def test_memory_is_shared_with_numpy_and_never_overwritten(dataset: Dataset) -> None:
    batches = dataset.torch(4)
    array = np.zeros((4, 24), np.int64)
    assert batches.tensors({"input_ids": array})["input_ids"].data_ptr() == array.ctypes.data
    array.flags.writeable = False
    assert batches.tensors({"input_ids": array})["input_ids"].data_ptr() != array.ctypes.data
    held = list(batches)
    same(held, own(dataset, 4))
    assert len({b["input_ids"].data_ptr() for b in held}) == len(held)


def test_schedules_columns_and_uneven_worlds(dataset: Dataset) -> None:
    schedule = Schedule(starts=(0, 3), sizes=(2, 6))
    whole = list(dataset.torch(schedule, columns=["labels"]))
    assert [len(b["labels"]) for b in whole[:5]] == [2, 2, 2, 6, 6]
    assert {tuple(b) for b in whole} == {("labels",)}
    same(read(dataset.torch(schedule, columns=["labels"]), 2), whole)
    assert np.array_equal(whole[3]["labels"], np.concatenate([dataset.batch(s, 2)["labels"] for s in (3, 4, 5)]))
    with pytest.raises(RangeError, match="must divide"):
        dataset.torch(8, rank=0, world=3)
    shares = [list(dataset.torch(8, rank=r, world=3, uneven=True)) for r in range(3)]
    same([{n: torch.cat([s[n] for s in step]) for n in step[0]} for step in zip(*shares, strict=True)], own(dataset, 8))
    for wrong in ({"rank": 0}, {"world": 2}, {"rank": 2, "world": 2}, {"start": -1}, {"start": 10**6}):
        with pytest.raises(RangeError):
            dataset.torch(8, **wrong)


def test_borders_of_documents_for_varlen_attention(dataset: Dataset) -> None:
    for workers in (0, 2):
        for batch in read(dataset.torch(4, columns=["segment_ids", "cu_seqlens"]), workers):
            borders = batch["cu_seqlens"]
            assert (borders.dtype, int(borders[0]), int(borders[-1])) == (torch.int32, 0, 4 * 24)
            changes = batch["segment_ids"].diff(dim=1).count_nonzero() + 4
            assert len(borders) - 1 == changes


def test_state_goes_to_any_number_of_workers_and_ranks(dataset: Dataset) -> None:
    expected = own(dataset, 8)
    state = json.loads(json.dumps(dataset.torch(8).state(3)))
    assert len(json.dumps(state)) < 200
    for workers in (0, 2, 3):
        again = dataset.torch(8)
        again.resume(state)
        same(read(again, workers), expected[3:])
        assert len(again) == len(expected) - 3
    for world in (2, 4):
        shares = [dataset.torch(8, rank=r, world=world) for r in range(world)]
        for share in shares:
            share.resume(state)
        rows = zip(*shares, strict=True)
        same([{n: torch.cat([part[n] for part in parts]) for n in parts[0]} for parts in rows], expected[3:])
    for step in (-1, len(expected) + 1):
        with pytest.raises(RangeError):
            dataset.torch(8).state(step)


@pytest.mark.parametrize("workers", [0, 2])
def test_state_goes_on_at_its_position_with_another_batch_size(dataset: Dataset, workers: int) -> None:
    state = dataset.torch(8).state(3)
    loader = dataset.loader(5)
    loader.load_state_dict(state)
    resumed = dataset.torch(5)
    resumed.resume(state)
    expected = list(loader)
    assert resumed.start == 3
    assert len(resumed) == len(expected) == (len(dataset) - 24) // 5
    same(read(resumed, workers), expected)
    again = dataset.torch(5)
    again.resume(resumed.state(5))  # and a state of that one
    same(read(again, workers), expected[2:])
    with pytest.raises(RangeError):
        resumed.state(2)


def test_state_of_another_dataset_is_refused_by_name(project: Any, dataset: Dataset) -> None:
    state = dataset.torch(8).state(2)
    other = project.open("second").torch(8)
    with pytest.raises(LockError, match="second"):
        other.resume(state)
    assert other.start == 0


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_stateful_data_loader(project: Any, dataset: Dataset, workers: int) -> None:
    module = pytest.importorskip("torchdata.stateful_dataloader")

    def loader(source: Dataset = dataset) -> Any:
        return module.StatefulDataLoader(source.torch(8, start=1), batch_size=None, num_workers=workers)

    expected = own(dataset, 8, 1)
    for taken in (0, 1, 2, 3, len(expected) - 1, len(expected)):
        one = loader()
        same([*islice(one, taken)], expected[:taken])
        state = pickle.loads(pickle.dumps(one.state_dict()))
        another = loader()
        another.load_state_dict(state)
        same(list(another), expected[taken:])
        same(list(another), expected)  # the next epoch is a whole one
    third = loader(project.open("second"))
    third.load_state_dict(state)
    error = raised(lambda: next(iter(third)))
    assert isinstance(error, LockError)
    assert (error.kind, "/second" in str(error)) == ("lock-mismatch", True)


def test_an_iterations_own_state(dataset: Dataset) -> None:
    one = iter(dataset.torch(8))
    for _ in range(3):
        next(one)
    assert one.step == 3
    assert one.state_dict() == dataset.torch(8).state(3)
    another = iter(dataset.torch(8))
    another.load_state_dict(one.state_dict())
    same(list(another), list(one))
    assert one.state_dict() == dataset.torch(8).state(dataset.steps(8))


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")
def test_pinned_memory_needs_no_accelerator(dataset: Dataset) -> None:
    for workers in (0, 2):
        got = read(dataset.torch(8), workers, pin_memory=True)
        same(got, own(dataset, 8))
        assert got[0]["input_ids"].is_pinned() == torch.cuda.is_available()


def devices() -> list[str]:
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_to_device(dataset: Dataset, device: str, depth: int) -> None:
    got = list(to_device(dataset.torch(8), device, depth))
    assert all(t.device.type == device for batch in got for t in batch.values())
    same([{n: t.cpu() for n, t in batch.items()} for batch in got], own(dataset, 8))


@pytest.mark.parametrize("device", devices())
def test_to_device_hands_an_error_out_in_its_place(dataset: Dataset, device: str) -> None:
    def broken() -> Any:
        yield from islice(dataset.torch(8), 3)
        raise CorruptError("source a, part 1: gone", kind="corrupt")

    moved, taken = to_device(broken(), device), []
    with pytest.raises(CorruptError):
        taken.extend(moved)
    assert len(taken) == 3


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_both_ways_to_start_processes(dataset: Dataset, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    running = iter(dataset.torch(8))  # its thread reads while processes start
    next(running)
    same(read(dataset.torch(8), 2, multiprocessing_context=method), own(dataset, 8))
    same([*running], own(dataset, 8, 1))


def test_batches_pickle_small(dataset: Dataset) -> None:
    list(dataset.torch(8))
    data = pickle.dumps(dataset.torch(8, start=2, dtype=torch.uint16))
    assert len(data) < 2000
    same(list(pickle.loads(data)), own(dataset, 8, 2))


def until_it_breaks(dataset: Dataset, workers: int) -> tuple[int, DsbuildError]:
    """The number of batches before the error, and the error."""
    taken: list[Any] = []
    error = raised(lambda: taken.extend(DataLoader(dataset.torch(1), batch_size=None, num_workers=workers)))
    same(taken, [dataset.batch(step, 1) for step in range(len(taken))])
    return len(taken), error


def test_errors_reach_the_caller_in_their_place(project: Any) -> None:
    content = build(project, examples='shuffle = "none"').sources[0].records.content(2)
    (path,) = (project.root / "store").glob(f"objects/*/{content.hex}/*/data.zarr/input_ids/values/c.0")
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    step, told = until_it_breaks(project.open(), 0)
    assert step > 0
    assert (told.kind, type(told)) == ("corrupt", CorruptError)
    for workers in (1, 2):
        other, error = until_it_breaks(project.open(), workers)
        assert isinstance(error, CorruptError)
        assert (other, error.kind) == (step, "corrupt")
        assert error.diagnostics[0].hint == told.diagnostics[0].hint
        assert str(told) in str(error)
        assert all(word in str(error) for word in ("source", "part 2", "record"))
        assert "DataLoader worker process" in str(error)


@pytest.mark.parametrize("cls", [*WORKER_ERRORS, WorkerError])
def test_errors_of_workers_keep_their_class(cls: type[WorkerError]) -> None:
    plain = DsbuildError if cls is WorkerError else cls.__bases__[1]
    text = (
        "Caught it in DataLoader worker process 1.\nOriginal Traceback …\nsource a, part 1\nkind: corrupt\nhint: verify"
    )
    for error in (cls(text), pickle.loads(pickle.dumps(cls(text)))):
        assert isinstance(error, plain)
        assert (error.kind, error.diagnostics[0].hint, error.exit_code) == ("corrupt", "verify", plain.exit_code)
        assert "source a, part 1" in str(error)
    assert cls("no more is known").kind == "internal"


def test_a_launcher_without_a_group_is_refused(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RangeError, match="every rank would read the same rows"):
        dataset.torch(8)
    same(list(dataset.torch(8, rank=1, world=2)), own(dataset, 8, rank=1, world=2))
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert dataset.torch(8).world == 1


def run_all(commands: list[tuple[list[str], dict[str, str]]], directory: Path) -> list[str]:
    """Run at once; what each printed. A process that fails fails the test with what it said."""
    running = [
        subprocess.Popen(
            [sys.executable, "-P", *command],
            cwd=directory,
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"} | extra,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, extra in commands
    ]
    try:
        said = [process.communicate(timeout=90) for process in running]
    finally:
        for process in running:
            process.kill()
    for process, (out, err) in zip(running, said, strict=True):
        assert process.returncode == 0, out + err
    return [out for out, _ in said]


def test_two_processes_hold_one_batch(project: Any, dataset: Dataset, tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("torch_process.py"))
    given = [script, dataset.digest.hex, str(project.root / "store"), str(tmp_path / "meeting")]
    outs = [tmp_path / f"{rank}.npz" for rank in (0, 1)]
    run_all([([*given, str(r), "2", "8", "2", str(outs[r])], {}) for r in (0, 1)], tmp_path)
    ranks = [np.load(out) for out in outs]
    expected = own(dataset, 8, 2)
    for name in expected[0]:
        whole = np.stack([batch[name] for batch in expected])
        assert np.array_equal(np.concatenate([rank[name] for rank in ranks], axis=1), whole)
    sums = [int(batch["input_ids"].sum()) for batch in expected]
    assert [rank["total"].tolist() for rank in ranks] == [sums, sums]


def test_without_torch(dataset: Dataset) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from dsbuild import open_dataset\n"
        "from dsbuild.errors import MachineError\n"
        "d = open_dataset(sys.argv[1], store=sys.argv[2]); d.batch(0, 2)\n"
        "try: d.torch(2)\n"
        "except MachineError as e: print(e.kind, e.render())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, dataset.digest.hex, dataset.store.root],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("missing-library")
    assert "pip install 'dsbuild[torch]'" in done.stdout


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A directory with the tiny recipe, built, and the code of the how-to: ``train.py``, and ``rest.py`` in one."""
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    run_all([(["-m", "dsbuild", "build", "recipes/tiny.toml", "--store", "store"], {})], tmp_path)
    text = (ROOT / "docs" / "how-to" / "pytorch.md").read_text("utf-8")
    blocks = re.findall(r"```python ?([^\n]*)\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in blocks] == ["train.py", "", "", "", ""]
    (tmp_path / "train.py").write_text(blocks[0][1])
    (tmp_path / "rest.py").write_text("".join(code for _, code in blocks[1:]))
    return tmp_path


def test_how_to(page: Path) -> None:
    pytest.importorskip("torchdata.stateful_dataloader")
    run_all([(["rest.py"], {})], page)


def test_how_to_trains_on_two_ranks_and_goes_on_alone(page: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    said = run_all([(["train.py"], group | {"RANK": r, "LOCAL_RANK": r}) for r in "01"], page)
    assert said == ["trained up to step 4\n", ""]
    assert run_all([(["train.py"], {})], page) == ["trained up to step 9\n"]
    assert torch.load(page / "checkpoint.pt")["data"]["position"] == 80
