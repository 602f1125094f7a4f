"""Private: the memory that a process has for itself."""

from __future__ import annotations

from pathlib import Path


def megabytes() -> float:
    """Anonymous and shared pages of this process, in MB. Pages of mapped files are the system's cache: not counted."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024 / 1e6
