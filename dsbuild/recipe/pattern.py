"""Pattern: one entry of ``files = […]`` expanded to the regular files that it names.

``*``, ``?`` and ``[…]`` match inside one part of a path, ``**`` any number of directories; a directory stands for all
files below it. Names that begin with a dot are matched only by parts that do. Symbolic links are followed (a file left
out in silence would be a hole in the data) but never in a circle. One ``stat`` a file.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from dsbuild.recipe.suggest import did_you_mean

_MAGIC = re.compile(r"[*?[]")
_DEEP = "**"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What kept a pattern from being expanded: an error ``kind``, the name, what is wrong with it, a hint."""

    kind: str
    name: str
    message: str
    hint: str | None = None


Match = tuple[str, str, os.stat_result]
"""Name as the pattern writes it, absolute path, what ``stat`` said."""


@dataclass(frozen=True, slots=True)
class _State:
    """A directory and the number of the part to match in it; ``trail``: real paths of it and of those above."""

    name: str
    path: str
    part: int
    trail: tuple[str, ...]


@dataclass(slots=True)
class Expansion:
    """What a pattern gave: ``matches`` sorted by name, and ``problems``."""

    matches: list[Match] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def is_glob(pattern: str) -> bool:
    """Whether ``pattern`` has wildcards."""
    return _MAGIC.search(pattern) is not None


def expand(pattern: str, directory: str) -> Expansion:
    """The files that ``pattern`` names from the absolute path ``directory``. Problems are told, never raised."""
    found = Expansion()
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    fixed = 0
    while fixed < len(parts) and not is_glob(parts[fixed]):
        fixed += 1
    name = ("/" if pattern.startswith("/") else "") + "/".join(parts[:fixed])
    start = os.path.join(directory, name) if name else directory  # noqa: PTH118 - ten thousand names, as text
    if fixed < len(parts):
        _Search(found, parts[fixed:]).run(name, start)
    else:
        _plain(found, name or ".", start)
    if not found.matches and not found.problems:
        what = "no file matches" if fixed < len(parts) else "no file in this directory"
        found.problems.append(Problem(kind="no-match", name=pattern, message=what, hint=_why_nothing(start)))
    found.matches.sort(key=_by_name)
    return found


def _by_name(match: Match) -> str:
    return match[0]


def _plain(found: Expansion, name: str, path: str) -> None:
    """A name without wildcards: a file, or a directory with all that is below it."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        found.problems.append(_no_file(name, path, error))
        return
    if stat.S_ISDIR(status.st_mode):
        _Search(found, [_DEEP]).run("" if name == "." else name, path)
    elif not stat.S_ISREG(status.st_mode):
        found.problems.append(Problem(kind="not-a-file", name=name, message=f"{_type(status.st_mode)}, not a file"))
    elif not _is_utf8(name):
        found.problems.append(_bad_name(name))
    else:
        found.matches.append((name, path, status))


class _Search:
    """The walk for one pattern: directories still to be looked at, each with the part to match in it."""

    def __init__(self, found: Expansion, parts: list[str]) -> None:
        self.found, self.parts = found, parts
        self.accepts: list[Callable[[str], object]] = [re.compile(fnmatch.translate(p)).match for p in parts]
        self.stack: list[_State] = []
        self.seen: set[tuple[str, int]] = set()
        self.taken: set[str] = set()

    def run(self, name: str, path: str) -> None:
        """Match below ``path``."""
        self.push(_State(name, path, 0, (os.path.realpath(path),)))
        while self.stack:
            state = self.stack.pop()
            part = self.parts[state.part]
            if part == _DEEP:
                self.deep(state)
            elif is_glob(part):
                self.scan(state, self.accepts[state.part], part.startswith("."))
            else:
                self.literal(state, part)

    def push(self, state: _State) -> None:
        """Look at a directory later, unless that was done."""
        if (state.path, state.part) not in self.seen:
            self.seen.add((state.path, state.part))
            self.stack.append(state)

    def deep(self, state: _State) -> None:
        """``**``: the parts behind it are matched here and in every directory below."""
        if state.part + 1 < len(self.parts):
            self.push(_State(state.name, state.path, state.part + 1, state.trail))
        last = state.part + 1 == len(self.parts)
        self.scan(state, bool, hidden=False, files=last, stay=True)

    def literal(self, state: _State, part: str) -> None:
        """A part without wildcards."""
        name, path = f"{state.name}/{part}" if state.name else part, f"{state.path}/{part}"
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.problem("unreadable", name, error.strerror or str(error))
            return
        if not stat.S_ISDIR(status.st_mode):
            if state.part + 1 == len(self.parts):
                self.file(name, path, status)
        elif state.part + 1 < len(self.parts):
            self.push(_State(name, path, state.part + 1, (*state.trail, os.path.realpath(path))))

    def scan(
        self, state: _State, accepts: Callable[[str], object], hidden: bool, files: bool = True, stay: bool = False
    ) -> None:
        """One directory: takes files where this is the last part, and goes into directories where it is not.

        ``stay``: go into directories with the same part, as ``**`` does.
        """
        last = state.part + 1 == len(self.parts)
        prefix = f"{state.name}/" if state.name and state.name != "/" else state.name
        try:
            entries = os.scandir(state.path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.problem("unreadable", state.name or ".", error.strerror or str(error))
            return
        with entries:
            for entry in entries:
                name = entry.name
                if (name[0] == "." and not hidden) or not accepts(name):
                    continue
                try:
                    if entry.is_dir():
                        if stay or not last:
                            self.enter(state, entry, prefix + name, state.part if stay else state.part + 1)
                    elif last and files:
                        self.file(prefix + name, entry.path, entry.stat())
                except OSError as error:
                    self.dangling(prefix + name, entry, error)

    def enter(self, state: _State, entry: os.DirEntry[str], name: str, part: int) -> None:
        """Look at a directory later; one that a link leads to only if it is none of those above."""
        if entry.is_symlink():
            real = os.path.realpath(entry.path)
            if real in state.trail:
                return
        else:
            real = f"{state.trail[-1].rstrip('/')}/{entry.name}"
        self.push(_State(name, entry.path, part, (*state.trail, real)))

    def file(self, name: str, path: str, status: os.stat_result) -> None:
        """Take a file; what is none is a problem."""
        if not stat.S_ISREG(status.st_mode):
            self.problem("not-a-file", name, f"{_type(status.st_mode)}, not a file")
        elif not name.isascii() and not _is_utf8(name):
            self.found.problems.append(_bad_name(name))
        elif name not in self.taken:
            self.taken.add(name)
            self.found.matches.append((name, path, status))

    def dangling(self, name: str, entry: os.DirEntry[str], error: OSError) -> None:
        """A name that could not be looked at."""
        if entry.is_symlink():
            nowhere = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
            message = "a symbolic link that leads nowhere" if nowhere else error.strerror or str(error)
            self.problem("not-a-file" if nowhere else "unreadable", name, message)
        elif error.errno != errno.ENOENT:  # a file that went away during the walk is not there
            self.problem("unreadable", name, error.strerror or str(error))

    def problem(self, kind: str, name: str, message: str) -> None:
        """Remember a problem."""
        self.found.problems.append(Problem(kind=kind, name=name, message=message))


def _type(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a directory" if stat.S_ISDIR(mode) else "a device"


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bad_name(name: str) -> Problem:
    hint = "rename the file: a lock that other machines read needs a name that is text"
    return Problem(kind="bad-name", name=name, message="its name is not UTF-8", hint=hint)


def _no_file(name: str, path: str, error: OSError) -> Problem:
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and os.path.islink(path):  # noqa: PTH114
        return Problem(kind="not-a-file", name=name, message="a symbolic link that leads nowhere")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return Problem(kind="no-such-file", name=name, message="no such file or directory", hint=_near(name, path))
    return Problem(kind="unreadable", name=name, message=error.strerror or str(error))


def _near(name: str, path: str) -> str:
    above, _, last = path.rpartition("/")
    try:
        return did_you_mean(last, os.listdir(above or "/")) or "paths start from the recipe's directory"  # noqa: PTH208
    except OSError:
        return f"there is no directory {name.rpartition('/')[0]!r} beside the recipe"


def _why_nothing(start: str) -> str:
    if not os.path.isdir(start):  # noqa: PTH112
        return "the directory does not exist; paths start from the recipe's directory"
    return "hidden files are left out, and a directory is matched by its own name or by '**'"
