"""The loader against a plain gather and against its peers: every bar of the stream, in one run.

Usage: loader.py [--tokens N] [--directory D] [--peers PYTHON] [--prepare] [--rounds R] [--seconds S] [--json]. Corpus,
store and the peers' formats are made under D where they are missing and are kept; ``--prepare`` stops after that.
``--peers`` is the interpreter of an environment that has the peers (one without a peer prints "not installed").
All measuring is done in processes of their own (``peers/``): things that are compared run in turn in one process, and
rates are medians. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.metadata
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from measure import claim

HERE = Path(__file__).with_name("peers")
SHAPES = ((2048, 32, 0), (8192, 8, 0), (2048, 32, 2))
PEERS = {
    "litdata": "LitData",
    "datasets": "HF datasets, map",
    "torchdata": "torchdata over a user's own class",
    "grain": "Grain over a user's own source",
    "spdl": "SPDL over a user's own function",
    "datatrove": "datatrove (shuffled when built)",
    "olmo": "OLMo-core",
    "megatron": "Megatron-core",
    "mosaic": "MosaicML Streaming",
}
READY = ("litdata", "datasets", "olmo", "megatron", "mosaic")
"""Peers that shuffle and read a format of their own: in the others a user's own code does the gather, or the build shuffles."""

THREADS = ("spdl",)
"""Peers whose workers are threads of the process: no peers of DataLoader's 2 workers."""

NOT_INSTALLED = 3
SOURCES, PASSES = "sources", "first pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A claim: ``value`` must be at least, or at most, ``limit``."""

    name: str
    value: float
    limit: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


class Run:
    """The measurements over one corpus."""

    def __init__(self, found: dict[str, Any], arguments: argparse.Namespace) -> None:
        self.corpus, self.arguments = found, arguments
        self.root = Path(found["root"])
        self.described = self.root / "corpus.json"
        self.described.write_text(json.dumps(found))
        self.bars: list[Bar] = []
        self.results: dict[str, Any] = {"machine": machine(), "tokens": found["tokens"]}

    def bar(self, name: str, value: float, limit: float, *, at_least: bool = True) -> None:
        self.bars.append(Bar(name=name, value=value, limit=limit, at_least=at_least))

    def script(self, name: str, *arguments: object, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        """One of the measuring scripts in a process of its own."""
        command = [python, str(HERE / name), *map(str, arguments)]
        return subprocess.run(
            command, env=corpus.environment(), capture_output=True, text=True, check=False, cwd=self.root
        )

    def answer(self, name: str, *arguments: object) -> list[dict[str, Any]]:
        """What a script of ours says, a JSON value a line."""
        done = self.script(name, *arguments)
        if done.returncode:
            raise SystemExit(f"{name} {arguments[0]}: exit {done.returncode}\n{done.stderr[-3000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def steady(self) -> None:
        (found,) = self.answer("steady.py", self.described, self.arguments.rounds, self.arguments.seconds)
        self.results["steady"] = found
        for name in (n for n in found if n not in (SOURCES, PASSES)):
            rates = found[name]
            floor = rates["floor: numpy gather"]
            print(f"\n{name} tokens, one warm process, every block verified:")
            for thing, rate in rates.items():
                print(f"  {thing:46} {rate:9.0f} M tokens/s  {rate / floor:6.3f} of the floor")
            alone = max(r for n, r in rates.items() if n.startswith("input_ids"))
            packed = max(r for n, r in rates.items() if n.startswith("packed documents,"))
            self.bar(f"{name}: input_ids alone / floor", alone / floor, 0.7)
            self.bar(f"{name}: packed documents, M tokens/s", packed, 200)
            self.bar(f"{name}: packed documents / floor", packed / floor, 0.2)
            if "C gather" in rates:
                print(f"  stretch: input_ids alone is {alone / rates['C gather']:.3f} of the C gather (wanted: 0.5)")
        print("\nFirst pass, each block verified at its first touch:")
        for thing, rate in found[PASSES].items():
            print(f"  {thing:46} {rate:9.0f} M tokens/s")
        print("\nA thousand sources against one source of the same thousand files:")
        for called in ("input_ids", "packed documents"):
            one, many = found[SOURCES][f"one, {called}"], found[SOURCES][f"many, {called}"]
            print(f"  {called:46} {one:9.0f} and {many:.0f} M tokens/s: {many / one:.3f}")
            self.bar(f"1,000 sources / one source, {called}", many / one, 0.5)

    def first(self) -> None:
        starts, firsts, seeks = [], [], {}
        imported: set[str] = set()
        for _ in range(max(self.arguments.rounds, 3)):
            started = time.perf_counter()
            command = [sys.executable, str(HERE / "fresh.py"), "first", str(self.described)]
            with subprocess.Popen(command, env=corpus.environment(), stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                said = json.loads(child.stdout.readline())
                starts.append(time.perf_counter() - started)
                for name, times in json.loads(child.stdout.readline()).items():
                    seeks.setdefault(name, []).extend(times)
            firsts.append(said["open_ms"] + said["batch_ms"])
            imported.update(said["imported"])
        (memory,) = self.answer("fresh.py", "memory", self.described)
        medians = {name: statistics.median(times) for name, times in seeks.items()}
        self.results["first"] = {
            "start_s": statistics.median(starts),
            "open_and_first_batch_ms": statistics.median(firsts),
            "seek_ms": medians,
            "imported": sorted(imported),
            **memory,
        }
        print(
            f"\nProcess start to first batch {statistics.median(starts):.3f} s; imported: {sorted(imported) or 'none'}"
        )
        print(f"Open and first batch {statistics.median(firsts):.1f} ms; after a seek to 90 % {medians} ms")
        print(f"Private memory after an epoch {memory['private_mb']:.0f} MB")
        self.bar("process start to first batch, s", statistics.median(starts), 0.5, at_least=False)
        self.bar("torch, jax or ray imported", len(imported & {"torch", "jax", "ray"}), 0, at_least=False)
        self.bar("open and first batch, ms", statistics.median(firsts), 50, at_least=False)
        self.bar("batch after a seek to 90 %, ms", max(medians.values()), 5, at_least=False)
        self.bar("private memory, MB", memory["private_mb"], 100, at_least=False)

    def cold(self) -> None:
        # few windows, far apart: what is cold in earnest is a corpus larger than memory, of which each window is a read
        steps = max(4, min(32, self.corpus["tokens"] // (2048 * 32) // 32))
        self._write_order(steps)
        files = {
            "cold": [p for p in Path(self.corpus["store"]).rglob("*") if p.is_file()],
            "map": [Path(self.corpus["flat"])],
        }
        times: dict[str, list[float]] = {"map": [], "cold": []}
        read = {}
        left = 0.0
        for _ in range(self.arguments.rounds):
            for name, taken in times.items():
                drop(files[name])
                left = max(left, resident(files[name]))
                (said,) = self.answer("fresh.py", name, self.described, steps)
                taken.append(said["seconds"])
                read[name] = said["read_mb"]
        rates = {n: steps * 2048 * 32 / statistics.median(t) / 1e6 for n, t in times.items()}
        self.results["cold"] = {**rates, "resident_before": left, "steps": steps, "read_mb": read}
        print(f"\nCold, {steps} batches of 2,048 x 32 ({left:.1%} of the pages were left in memory):")
        for name, called in (("map", "plain gather from a map"), ("cold", "ours")):
            print(f"  {called:46} {rates[name]:9.1f} M tokens/s  ({read[name]:.0f} MB read from the disk)")
        if left < 0.02:
            self.bar("cold: ours / plain map", rates["cold"] / rates["map"], 2)
        else:
            print("  the page cache can't be dropped here: no bar")

    def _write_order(self, steps: int) -> None:
        """The places of the first windows, for the plain gather."""
        import dsbuild

        with dsbuild.open_dataset(self.corpus["hashes"]["web-2048"], store=self.corpus["store"]) as data:
            np.save(self.root / "cold.npy", data.rows(0, steps * 32)["example"] * 2048)

    def peer(
        self, names: str, python: str, shape: tuple[int, int, int], rounds: int, directory: str = ""
    ) -> dict[str, Any] | str:
        """What ``run.py`` says, or why it says nothing."""
        length, size, workers = shape
        where = self.root / "peers" / (directory or names)
        done = self.script(
            "run.py", self.described, where, names, length, size, workers, rounds, self.arguments.seconds, python=python
        )
        if done.returncode == NOT_INSTALLED:
            return "not installed"
        if done.returncode:
            print(f"{names}: exit {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
            return "failed"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def prepare_peers(self) -> None:
        if self.arguments.peers:
            for name in PEERS:
                for length in corpus.LENGTHS:
                    started = time.perf_counter()
                    said = self.peer(f"{name}_peer", self.arguments.peers, (length, 32, 0), 0, name)
                    if isinstance(said, str) or time.perf_counter() - started > 20:
                        print(f"  {name} {length}: {said or f'{time.perf_counter() - started:.0f} s'}", file=sys.stderr)

    def table(self) -> None:
        """The peers' table, and the bars that compare with them."""
        rows: dict[str, list[dict[str, Any] | str]] = {}
        for name in ("ours", "ours_torch") if has_torch() else ("ours",):
            rows[name] = [
                "" if name == "ours" and shape[2] else self.peer(name, sys.executable, shape, self.arguments.rounds)
                for shape in SHAPES
            ]
        for name in PEERS if self.arguments.peers else ():
            rows[name] = [
                "" if shape[2] and name in THREADS else self.peer(f"{name}_peer", self.arguments.peers, shape, 3, name)
                for shape in SHAPES
            ]
        self.results["peers"] = rows
        names = {"ours": "dsbuild", "ours_torch": "dsbuild through torch's DataLoader", **PEERS}
        print("\nM tokens/s (ratio to the floor, measured in turn with it):")
        print(f"  {'':36}{'2,048 x 32':>18}{'8,192 x 8':>18}{'2 workers':>18}{'private MB':>12}")
        for name, cells in rows.items():
            private = next((f"{c['private_mb']:.0f}" for c in cells if isinstance(c, dict)), "")
            print(f"  {names[name]:36}{''.join(f'{cell(c):>18}' for c in cells)}{private:>12}")
        self._peer_bars(rows)

    def _peer_bars(self, rows: dict[str, list[dict[str, Any] | str]]) -> None:
        best = {name: ratio(rows[name][0]) for name in READY if name in rows and ratio(rows[name][0])}
        if best:
            fastest = max(best, key=lambda name: best[name])
            self.bar(f"ours / fastest ready-made peer ({fastest})", ratio(rows["ours"][0]) / best[fastest], 4)
        if "ours_torch" not in rows:
            return
        both = self.peer("ours,ours_torch", sys.executable, SHAPES[0], self.arguments.rounds)
        if isinstance(both, dict):
            rates = both["rates"]
            print(
                f"  in one process: ours {rates['ours']:.0f}, through DataLoader {rates['ours_torch']:.0f} M tokens/s"
            )
            self.bar("DataLoader with 0 workers / own loader", rates["ours_torch"] / rates["ours"], 0.7)
        two = {name: ratio(cells[2]) for name, cells in rows.items() if name in PEERS and ratio(cells[2])}
        if two:
            fastest = max(two, key=lambda name: two[name])
            self.bar(f"2 workers: ours / fastest peer ({fastest})", ratio(rows["ours_torch"][2]) / two[fastest], 1)


def cell(found: dict[str, Any] | str) -> str:
    if isinstance(found, str):
        return found or "-"
    rate = next(iter(found["rates"].values()))
    return f"{rate:.0f} ({ratio(found):.3f})" if rate >= 10 else f"{rate:.1f} ({ratio(found):.3f})"


def ratio(found: dict[str, Any] | str) -> float:
    """The first thing's rate over the floor's, measured in turn with it; 0 where there is none."""
    return 0.0 if isinstance(found, str) else next(iter(found["rates"].values())) / found["rates"]["floor"]


def has_torch() -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version("torch"))
    return False


def drop(paths: Iterable[Path]) -> None:
    """Ask the system to forget the pages of files, as far as it allows."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(paths: Iterable[Path]) -> float:
    """The share of the files' pages that is in memory."""
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    inside = pages = 0
    for path in paths:
        size = path.stat().st_size
        if size:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                array = np.frombuffer(view, np.uint8)
                told = np.zeros(-(-size // page), np.uint8)
                libc.mincore(
                    ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(told.ctypes.data)
                )
                inside, pages = inside + int((told & 1).sum()), pages + len(told)
                del array
    return inside / max(pages, 1)


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model or platform.machine()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; "
        f"{platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}, numpy {np.__version__}"
    )


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=400_000_000)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir(), "dsbuild-loader"))
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def measured(arguments: argparse.Namespace) -> Run:
    """Everything, printed on the way."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(Path(corpus.package()))], check=False)
    run = Run(corpus.prepare(arguments.directory.resolve(), arguments.tokens), arguments)
    run.prepare_peers()
    if not arguments.prepare:
        print(f"{run.results['machine']}; {run.corpus['tokens']:,} tokens")
        run.cold()
        run.steady()
        run.first()
        run.table()
        print()
        for bar in run.bars:
            claim(bar.name, bar.value, bar.limit, at_least=bar.at_least)
    return run


if __name__ == "__main__":
    arguments = parsed()
    with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
        run = measured(arguments)
    if arguments.json:
        print(json.dumps({**run.results, "bars": [{**asdict(bar), "met": bar.met} for bar in run.bars]}, indent=1))
    sys.exit(not all(bar.met for bar in run.bars))
