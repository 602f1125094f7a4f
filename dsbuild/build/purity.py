"""Purity: what user Python may not do while it makes records: sockets, processes, writing files, undeclared reads.

An audit hook sees these whatever library they go through. It can't be removed, so it is added once a process and
does nothing outside of ``guarded``. It is a guard against mistakes, not a sandbox against malice: a recipe's Python
is code that its user chose to run, and the plan names it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

from dsbuild.errors import BuildError

_REFUSED = {
    "socket.connect": "opened a network connection",
    "socket.getaddrinfo": "looked up a host",
    "subprocess.Popen": "started a process",
    "os.system": "started a process",
    "os.posix_spawn": "started a process",
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.remove": "removed a file",
    "os.rename": "renamed a file",
    "os.mkdir": "made a directory",
}
_SYSTEM = ("/usr/lib", "/usr/share/zoneinfo", "/proc/cpuinfo", "/sys/devices/system/cpu", "/dev/null")
"""What libraries of Python read by themselves when they are first imported."""

_state = threading.local()


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Within it, impure acts of this thread raise ``BuildError`` (kind ``impure``)."""
    _install()
    _state.active, _state.refused = True, None
    try:
        yield
    finally:
        _state.active = False
        if _state.refused is not None:  # also when the user's code caught it
            raise _state.refused


@cache
def _install() -> None:
    roots = tuple({os.path.realpath(p) + os.sep for p in (sys.prefix, sys.base_prefix, *sys.path) if p})

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not getattr(_state, "active", False):
            return
        if event in _REFUSED:
            _refuse(f"{_REFUSED[event]} ({event})")
        if event == "open" and isinstance(arguments[0], str | bytes):
            _state.active = False  # realpath may itself raise events
            try:
                path = os.path.realpath(os.fsdecode(arguments[0]))
                mode = arguments[1] or ""
                flags = arguments[2] if isinstance(arguments[2], int) else 0
            finally:
                _state.active = True
            if any(c in mode for c in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                _refuse(f"opened {path} for writing")
            if not path.startswith((*roots, *_SYSTEM)):
                _refuse(f"read {path}, which it does not declare")
        if event in ("os.listdir", "os.scandir") and not _inside(arguments[0], roots):
            _refuse("listed a directory")

    sys.addaudithook(hook)


def _inside(path: object, roots: tuple[str, ...]) -> bool:
    return isinstance(path, str) and (path + os.sep).startswith(roots)


def _refuse(what: str) -> None:
    _state.refused = BuildError(
        f"user Python {what}",
        kind="impure",
        hint="a handler is a function of its record alone; what it needs to read is declared: "
        'reads = ["file"] gives it the bytes as the argument "reads"',
    )
    raise _state.refused
