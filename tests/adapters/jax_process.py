"""One process of a ``jax.distributed`` run; test_jax.py starts several, and reads what each prints as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from dsbuild import open_dataset
from dsbuild.load.jax import JaxBatches

SIZE = 16


class Counted:
    """A dataset that notes which rows are read."""

    def __init__(self, dataset: Any) -> None:
        self.inner, self.digest, self.split = dataset, dataset.digest, dataset.split
        self.read: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.inner)

    def examples(self, start: int, stop: int, **options: Any) -> Any:
        self.read.append((start, stop))
        return self.inner.examples(start, stop, **options)


def meshes() -> dict[str, tuple[Any, P]]:
    """Name -> devices in the shape of (data, model), and the spec; processes have neighbouring devices."""
    devices = np.array(jax.devices())
    half = len(devices) // 2
    return {
        "data": (devices.reshape(-1, 1), P("data")),
        "data of processes, model within": (devices.reshape(2, half), P("data")),
        "data within, model of processes": (devices.reshape(2, half).T, P("data")),
        "interleaved": (devices.reshape(2, half).T.reshape(-1, 1), P("data")),
        "replicated": (devices.reshape(-1, 1), P()),
        "sequence of processes": (devices.reshape(1, -1), P("data", "model")),
        "first half": (devices[:half].reshape(-1, 1), P("data")),
    }


def look(dataset: Any, devices: Any, spec: P) -> dict[str, Any]:
    """What this process reads and holds of two steps."""
    mesh, counted = Mesh(devices, ("data", "model")), Counted(dataset)
    sharding = NamedSharding(mesh, spec)
    here = jax.process_index() in {d.process_index for d in devices.flat}
    total = jax.jit(lambda x: x.astype(np.int32).sum(), out_shardings=NamedSharding(mesh, P()))
    right, held, totals = True, set(), []
    with JaxBatches(counted, SIZE, sharding, dtype=np.uint16, prefetch=0) as batches:
        counted.read.clear()  # one example, to learn the columns
        for step in range(2):
            want = dataset.batch(step, SIZE, dtype=np.uint16)
            for name, array in next(batches).items():
                right &= array.shape == want[name].shape and array.dtype == want[name].dtype
                for shard in array.addressable_shards:
                    right &= np.array_equal(np.asarray(shard.data), want[name][shard.index])
                    start, stop, _ = shard.index[0].indices(SIZE)
                    held |= {step * SIZE + i for i in range(start, stop)}
                if name == "input_ids" and here:
                    totals.append(int(total(array)))
    return {"right": bool(right), "read": counted.read, "held": sorted(held), "totals": totals}


def train(dataset: Any, state: Path, steps: int) -> list[str]:
    """``steps`` steps from the state in a file, if there is one, and the state saved by process 0; digests of batches."""
    mesh = Mesh(np.array(jax.devices()), ("data",))
    whole = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P()))
    found = []
    with dataset.jax(SIZE, NamedSharding(mesh, P("data")), threads=2) as batches:
        if state.exists():
            batches.load_state_dict(json.loads(state.read_text()))
        for _ in range(steps):
            batch = next(batches)
            content = b"".join(np.asarray(whole(a)).tobytes() for _, a in sorted(batch.items()))
            found.append(hashlib.sha256(content).hexdigest())
        jax.block_until_ready(whole(batch["input_ids"]))
        if jax.process_index() == 0:
            state.write_text(json.dumps(batches.state_dict()))
    return found


def main() -> None:
    project, task = Path(os.environ["DSBUILD_JAX_PROJECT"]), json.loads(sys.argv[1])
    if task["processes"] > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        address = f"127.0.0.1:{task['port']}"
        jax.distributed.initialize(
            address,
            task["processes"],
            task["process"],
            initialization_timeout=60,
            shutdown_timeout_seconds=60,
            coordinator_bind_address=address,
        )
    assert jax.process_count() == task["processes"]
    dataset = open_dataset(project / "tiny.toml", store=project / "store")
    out: dict[str, Any] = {"devices": [len(jax.local_devices()), len(jax.devices())]}
    if task["look"]:
        out["meshes"] = {name: look(dataset, *where) for name, where in meshes().items()}
    out["batches"] = train(dataset, Path(task["state"]), task["steps"])
    print(json.dumps(out))


if __name__ == "__main__":
    main()
