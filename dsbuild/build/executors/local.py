"""Local: worker processes of this machine, each with an environment that is built, not inherited.

Safe because a worker only ever publishes whole parts: one that dies (or is killed) costs the part in its hands, which
is tried again on a fresh worker. Workers end by themselves when the driver's pipe closes, so a killed driver leaves
nothing behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import selectors
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dsbuild.errors import BuildError
from dsbuild.interfaces import Done

_HEAD = struct.Struct("<Q")
_KEPT_VARIABLES = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH", "DSBUILD_FAULT")


def worker_environment(environ: dict[str, str]) -> dict[str, str]:
    """A worker's environment: no hash seed, locale, time zone, proxy or thread setting of the caller's gets in."""
    kept = {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
    return kept | {
        "HOME": "/nonexistent",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": environ.get("PYTHONDONTWRITEBYTECODE", ""),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    task: Any = None
    buffer: bytearray = field(default_factory=bytearray)

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(_HEAD.pack(len(data)) + data)
        self.process.stdin.flush()

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def stop(self, grace: float = 0) -> None:
        """End the process; one that is ending by itself gets ``grace`` seconds, so that its own status is kept."""
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExecutor:
    """``jobs`` worker processes; a task whose worker dies is tried ``tries`` times in all."""

    jobs: int
    tries: int = 3

    def run(self, tasks: Iterable[Any], work: Callable[[Any], Any]) -> Iterator[Done]:
        """Each task once, or its error, in the order of finishing; workers start as tasks come, never more than needed.

        Closing the iterator kills the workers; what they had published stays.
        """
        source = iter(tasks)
        again: deque[tuple[Any, int]] = deque()
        tried: dict[int, int] = {}
        workers: list[_Worker] = []
        start = pickle.dumps(work)
        try:
            while True:
                self._feed(source, again, tried, workers, start)
                busy = [w for w in workers if w.task is not None]
                if not busy:
                    return
                ready = _readable(busy)
                for worker in busy:
                    if worker.output in ready:
                        yield from self._receive(worker, workers, again, tried)
        finally:
            for worker in workers:
                worker.stop()

    def _feed(
        self,
        source: Iterator[Any],
        again: deque[tuple[Any, int]],
        tried: dict[int, int],
        workers: list[_Worker],
        start: bytes,
    ) -> None:
        """Give every idle worker a task; start another worker while tasks and ``jobs`` allow."""
        while True:
            idle = next((w for w in workers if w.task is None), None)
            if idle is None and len(workers) >= self.jobs:
                return
            if again:
                task, count = again.popleft()
            else:
                task, count = next(source, None), 0
            if task is None:
                return
            if idle is None:
                idle = _start()
                workers.append(idle)
                self._try_send(idle, start)
            tried[id(idle)] = count + 1
            idle.task = task
            self._try_send(idle, pickle.dumps(task))

    def _try_send(self, worker: _Worker, data: bytes) -> None:
        # a worker that died meanwhile is found by the end of its output, where the retry is decided
        with contextlib.suppress(BrokenPipeError, OSError):
            worker.send(data)

    def _receive(
        self, worker: _Worker, workers: list[_Worker], again: deque[tuple[Any, int]], tried: dict[int, int]
    ) -> Iterator[Done]:
        data = os.read(worker.output, 1 << 20)
        if not data:
            workers.remove(worker)
            worker.stop(grace=1)
            count, task = tried[id(worker)], worker.task
            if count < self.tries:
                again.append((task, count))
            else:
                yield Done(task=task, error=_lost(task, count, worker.process.returncode))
            return
        worker.buffer += data
        if len(worker.buffer) < _HEAD.size:
            return
        (size,) = _HEAD.unpack_from(worker.buffer)
        if len(worker.buffer) < _HEAD.size + size:
            return
        value, error = pickle.loads(bytes(worker.buffer[_HEAD.size :]))  # noqa: S301 - our own child's pipe
        worker.buffer.clear()
        task, worker.task = worker.task, None
        yield Done(task=task, value=value, error=error)


def _readable(workers: Iterable[_Worker]) -> set[int]:
    """Descriptors of workers that have something to say, or have ended; waits for one."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.output, selectors.EVENT_READ)
        return {key.fd for key, _ in selector.select()}


def _start() -> _Worker:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", "from dsbuild.build.executors.local import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=worker_environment(dict(os.environ)),
        cwd="/",  # the same everywhere, and nothing of the user's
        start_new_session=True,  # a Ctrl-C reaches the driver alone, which then stops its workers
    )
    return _Worker(process=process)


def _lost(task: Any, count: int, status: int | None) -> BuildError:
    how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
    return BuildError(
        f"{getattr(task, 'label', task)}: its worker died {count} times ({how})",
        kind="worker-lost",
        hint="out of memory is the usual cause: look at the system's log, or give fewer --jobs",
    )


def serve() -> None:
    """The worker's loop: frames of pickled (work, then tasks) on stdin, frames of (value, error) on stdout."""
    import threading

    from dsbuild.errors import DsbuildError

    gc.freeze()
    gc.set_threshold(100_000, 50, 50)  # blocks are many small values that all die together
    tasks, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a handler's print goes to people, not into the protocol
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    received: deque[bytes] = deque()
    more = threading.Semaphore(0)

    def listen() -> None:
        while True:
            head = tasks.read(_HEAD.size)
            body = tasks.read(_HEAD.unpack(head)[0]) if len(head) == _HEAD.size else b""
            if not body:
                os._exit(0)  # the driver is gone: what is unpublished is worth nothing
            received.append(body)
            more.release()

    threading.Thread(target=listen, daemon=True).start()
    more.acquire()
    work = pickle.loads(received.popleft())  # noqa: S301 - our own driver's pipe
    while True:
        more.acquire()
        task = pickle.loads(received.popleft())  # noqa: S301
        answer: tuple[Any, BaseException | None]
        try:
            answer = (work(task), None)
        except DsbuildError as error:
            answer = (None, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the driver must hear of it
            import traceback

            answer = (None, DsbuildError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}", kind="internal"))
        data = pickle.dumps(answer)
        results.write(_HEAD.pack(len(data)) + data)
        results.flush()
