"""Locks: the one lock of a store, shared by builders for moments and exclusive for a collector.

Correctness of what is published never rests on it: it only keeps a collector from removing what a builder has just
found. ``locks/turn`` is a turnstile that all pass: a waiting collector holds it, so that a stream of builders can't
starve it. Never take the shared lock twice in one thread: between the two a collector may be waiting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dsbuild.errors import StorageError
from dsbuild.store.layout import Layout

PATIENCE = 600.0
"""Seconds to wait for the lock before giving up: far longer than any collector's exclusive section."""


def take(path: str, *, exclusive: bool, patience: float = PATIENCE) -> int:
    """An open descriptor that holds the lock of the file or directory ``path``; closing it lets go.

    Raises ``StorageError`` kind ``store-locked`` after ``patience`` seconds.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        wait = 0.0005
        end = time.monotonic() + patience
        while not try_lock(fd, exclusive=exclusive):
            if time.monotonic() >= end:
                raise StorageError(
                    f"{path}: held by another process for more than {patience:.0f} s",
                    kind="store-locked",
                    hint="is a 'dsbuild gc' stopped or hung? ending that process frees the lock",
                )
            time.sleep(wait)
            wait = min(wait * 1.5, 0.05)
    except BaseException:
        os.close(fd)
        raise
    return fd


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Lock the open file ``fd`` if that is possible at once."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def is_held(path: str) -> bool:
    """Whether another open file holds the lock of ``path``; False if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(fd, exclusive=True)
    finally:
        os.close(fd)


@contextmanager
def builders(layout: Layout) -> Iterator[None]:
    """Hold off collectors: for looking, leasing and publishing; for moments only."""
    turn = take(f"{layout.root}/locks/turn", exclusive=False)
    try:
        lock = take(f"{layout.root}/locks/gc", exclusive=False)
    finally:
        os.close(turn)
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def collector(layout: Layout) -> Iterator[None]:
    """Hold off everybody else."""
    turn = take(f"{layout.root}/locks/turn", exclusive=True)
    try:
        lock = take(f"{layout.root}/locks/gc", exclusive=True)
        try:
            yield
        finally:
            os.close(lock)
    finally:
        os.close(turn)
