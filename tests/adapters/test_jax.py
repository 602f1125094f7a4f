"""The JAX adapter, in processes of its own: with 8 devices, as 2 processes of ``jax.distributed``, and without JAX."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PORTS = 5
"""Ports that are tried: another process may take one between our look and JAX's."""

Outputs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the tiny recipe, built."""
    project = tmp_path_factory.mktemp("jax") / "recipes"
    shutil.copytree(ROOT / "recipes", project, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-P", "-m", "dsbuild", "build", str(project / "tiny.toml")]
    subprocess.run([*command, "--store", str(project / "store")], check=True, capture_output=True)
    return project


def environment(project: Path, devices: int) -> dict[str, str]:
    """Variables of a process with ``devices`` devices; no proxy, which JAX warns of, and nothing of this pytest."""
    kept = {k: v for k, v in os.environ.items() if not re.search(r"(?i)proxy|^PYTEST_|^JAX_|^XLA_", k)}
    return kept | {
        "DSBUILD_JAX_PROJECT": str(project),
        "DSBUILD_STORE": str(project / "store"),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def together(command: Callable[[int, int], list[str]], project: Path, processes: int, devices: int) -> Outputs:
    """Run ``command(port, process)`` for each process at once; again on another port where one was taken."""
    for _ in range(PORTS):
        port = free_port()
        codes, outputs = finish([command(port, n) for n in range(processes)], project, devices)
        if codes == [0] * processes:
            return outputs
        if not any(re.search("Failed to (add port|start RPC server)", error) for _, error in outputs):
            break
    raise AssertionError("\n".join(f"process {n}: {o}\n{e}" for n, (o, e) in enumerate(outputs)))


def finish(commands: list[list[str]], project: Path, devices: int) -> tuple[list[int], Outputs]:
    """Exit codes and outputs of processes; those that wait for one that failed are killed."""
    with contextlib.ExitStack() as stack:
        files = [[stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)] for _ in commands]
        running = [
            subprocess.Popen(c, env=environment(project, devices), cwd=project, stdout=out, stderr=err)
            for c, (out, err) in zip(commands, files, strict=True)
        ]
        deadline = time.monotonic() + 120
        try:
            while {p.poll() for p in running} in ({None}, {None, 0}) and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            for p in running:
                p.kill()
        codes = [p.wait() for p in running]
        for file in (f for pair in files for f in pair):
            file.seek(0)
        return codes, [(out.read(), err.read()) for out, err in files]


def run(project: Path, processes: int, devices: int, **task: Any) -> list[dict[str, Any]]:
    """What jax_process.py prints, for each process."""

    def command(port: int, process: int) -> list[str]:
        given = task | {"port": port, "process": process, "processes": processes}
        return [sys.executable, "-P", str(HERE / "jax_process.py"), json.dumps(given, default=str)]

    return [json.loads(out.splitlines()[-1]) for out, _ in together(command, project, processes, devices)]


def test_on_eight_devices(tiny: Path) -> None:
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(HERE / "jax_devices.py")],
        env=environment(tiny, 8),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None and int(found[1]) >= 45 and "skipped" not in done.stdout, done.stdout


@pytest.fixture(scope="module")
def pair(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """Two processes of two devices, and the state that they saved after 3 steps."""
    state = tmp_path_factory.mktemp("state") / "state.json"
    return run(tiny, 2, 2, state=state, steps=3, look=True), state


def rows(found: dict[str, Any]) -> list[int]:
    return sorted(i for start, stop in found["read"] for i in range(start, stop))


def test_two_processes_hold_and_read_their_own(pair: Any) -> None:
    both, _ = pair
    assert [p["devices"] for p in both] == [[2, 4], [2, 4]]
    for name in both[0]["meshes"]:
        for process in both:
            found = process["meshes"][name]
            assert found["right"], name
            assert rows(found) == found["held"], name  # each once, and no other
            if found["totals"]:
                assert found["totals"] == both[0]["meshes"][name]["totals"], name
                assert len(found["totals"]) == 2


def test_what_two_processes_read(pair: Any) -> None:
    def read(name: str) -> list[list[list[int]]]:
        return [p["meshes"][name]["read"] for p in pair[0]]

    whole = [[0, 16], [16, 32]]
    halves = [[[0, 8], [16, 24]], [[8, 16], [24, 32]]]
    assert read("data") == halves
    assert read("data of processes, model within") == halves
    assert read("data within, model of processes") == [whole, whole]
    assert read("interleaved") == [
        [[0, 4], [8, 12], [16, 20], [24, 28]],
        [[4, 8], [12, 16], [20, 24], [28, 32]],
    ]
    assert read("replicated") == [whole, whole]
    assert read("sequence of processes") == [whole, whole]
    assert read("first half") == [whole, []]


def test_a_global_sum(pair: Any, tiny: Path) -> None:
    from dsbuild import open_dataset

    dataset = open_dataset(tiny / "tiny.toml", store=tiny / "store")
    want = [int(dataset.batch(step, 16)["input_ids"].sum()) for step in range(2)]
    assert want[0] != want[1]
    for name, found in pair[0][0]["meshes"].items():
        assert found["totals"] == want, name


def test_resume_on_another_number_of_processes(pair: Any, tiny: Path, tmp_path: Path) -> None:
    both, saved = pair
    assert both[0]["batches"] == both[1]["batches"] and len(set(both[0]["batches"])) == 3
    state = json.loads(saved.read_text())
    assert (state["step"], state["position"]) == (3, 48) and len(saved.read_text()) < 200
    (fresh,) = run(tiny, 1, 4, state=tmp_path / "none.json", steps=5, look=False)
    assert fresh["batches"][:3] == both[0]["batches"]
    (one,) = run(tiny, 1, 8, state=shutil.copy(saved, tmp_path / "state.json"), steps=2, look=False)
    assert one["batches"] == fresh["batches"][3:]


PRELUDE = """
import functools
import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
# what a TPU pod tells by itself
jax.distributed.initialize = functools.partial(
    jax.distributed.initialize, "127.0.0.1:{port}", {processes}, {process},
    initialization_timeout=60, shutdown_timeout_seconds=60, coordinator_bind_address="127.0.0.1:{port}",
)
"""


def test_the_how_to(tiny: Path) -> None:
    """The page's program, on 2 processes of 4 devices and then, from their checkpoint, on 1 of 8."""
    text = (ROOT / "docs" / "how-to" / "jax.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    def printed(processes: int) -> list[str]:
        def command(port: int, process: int) -> list[str]:
            prelude = PRELUDE.format(port=port, process=process, processes=processes)
            return [sys.executable, "-P", "-c", prelude + code]

        outputs = together(command, tiny, processes, 8 // processes)
        told = [re.findall(r"^step .*", out, re.MULTILINE) for out, _ in outputs]  # gloo prints too
        assert not any(told[1:])  # process 0 alone tells
        return told[0]

    checkpoint = tiny / "checkpoint.json"
    first, second = printed(2), printed(1)
    assert [line.split()[1] for line in first + second] == ["10", "20", "30", "40"]
    assert json.loads(checkpoint.read_text())["position"] == 40 * 16


def test_without_jax() -> None:
    code = """
import sys
sys.modules["jax"] = None  # what Python notes for a module that is not there
import dsbuild, dsbuild.load
from dsbuild.errors import MachineError
try:
    import dsbuild.load.jax
except MachineError as error:
    assert error.kind == "missing-library", error.kind
    assert error.diagnostics[0].hint == "pip install 'dsbuild[jax]'"
    print("refused")
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


def test_dsbuild_does_not_load_jax() -> None:
    code = "import sys, dsbuild.load, dsbuild.load.dataset, dsbuild.load.loader; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
