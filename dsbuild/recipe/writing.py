"""Writing: small files beside a recipe (lock, outputs), replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from dsbuild.errors import StorageError, Where

_KINDS = {errno.ENOSPC: "disk-full", errno.EDQUOT: "disk-full", errno.EROFS: "read-only"}


def write_atomically(path: Path, data: bytes, hint: str | None = None) -> None:
    """Replace ``path`` by ``data``, durably, unless it holds just that. Raises ``StorageError`` with ``hint``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == data:
                return
        temporary.unlink(missing_ok=True)  # left over by a killed process that had this id
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        kind = "read-only" if isinstance(error, PermissionError) else _KINDS.get(error.errno or 0, "io-error")
        raise StorageError(f"{path}: {error.strerror}", kind=kind, where=Where(path=str(path)), hint=hint) from None
