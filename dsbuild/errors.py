"""Errors for people: what is wrong, where, the value seen, and what to do next.

Every error has a ``kind`` from the append-only table ``KINDS``; the kind fixes the class and so the exit code.
Errors pickle, because they cross process borders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a text file: ``path``, 1-based ``line`` and ``column``, the line's ``text``, the ``width`` to mark."""

    path: str
    line: int | None = None
    column: int | None = None
    text: str | None = None
    width: int = 1

    def __str__(self) -> str:
        parts = [self.path]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One mistake: ``message`` (the thing first, then what is wrong with it), its ``kind``, place and way out."""

    message: str
    kind: str
    where: Where | None = None
    hint: str | None = None

    def render(self) -> str:
        """The text shown to people, with the source line and a caret where they are known."""
        lines = [f"error: {self.message} [{self.kind}]"]
        if self.where is not None:
            lines.append(f"  at {self.where}")
            if self.where.text is not None and self.where.column is not None:
                indent = len(self.where.text) - len(self.where.text.lstrip())
                shown = self.where.text.strip().replace("\t", " ")
                lines.append(f"    {shown}")
                caret = max(self.where.column - 1 - indent, 0)
                lines.append("    " + " " * caret + "^" * max(self.where.width, 1))
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The same facts as plain values, for ``--json``."""
        found: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.where is not None:
            found["where"] = {"path": self.where.path, "line": self.where.line, "column": self.where.column}
        if self.hint is not None:
            found["hint"] = self.hint
        return found


class DsbuildError(Exception):
    """The root of all errors that dsbuild raises on purpose.

    ``diagnostics`` holds one or more mistakes; ``exit_code`` is the process's exit status by class.
    """

    exit_code: ClassVar[int] = 70
    title: ClassVar[str] = "our bug"

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "internal",
        where: Where | None = None,
        hint: str | None = None,
        diagnostics: Iterable[Diagnostic] = (),
    ) -> None:
        found = tuple(diagnostics) or (Diagnostic(message=message, kind=kind, where=where, hint=hint),)
        for diagnostic in found:
            if diagnostic.kind not in KINDS:
                raise AssertionError(f"kind {diagnostic.kind!r} is not in errors.KINDS")
        self.diagnostics = found
        super().__init__("\n".join(d.message for d in found))
        for hint in dict.fromkeys(d.hint for d in found if d.hint is not None):
            self.add_note(f"hint: {hint}")  # a traceback shows it too

    @property
    def kind(self) -> str:
        """The stable kind of the first mistake."""
        return self.diagnostics[0].kind

    def render(self) -> str:
        """All mistakes as text for people."""
        return "\n".join(d.render() for d in self.diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.diagnostics)


def _rebuild(cls: type[DsbuildError], diagnostics: tuple[Diagnostic, ...]) -> DsbuildError:
    return cls(diagnostics=diagnostics)


class BuildError(DsbuildError):
    """A record, part or worker failed; the other parts are published."""

    exit_code = 1
    title = "build"


class RecipeError(DsbuildError):
    """The recipe (or what it names) is wrong; nothing was read or written."""

    exit_code = 3
    title = "recipe"


class NotFoundError(DsbuildError):
    """A hash, file, store or root does not exist."""

    exit_code = 4
    title = "not found"


class CorruptError(DsbuildError):
    """Stored bytes are not what was published."""

    exit_code = 5
    title = "corrupt"


class StorageError(DsbuildError):
    """The file system refused: full, read-only, no permission, a format too new."""

    exit_code = 6
    title = "storage"


class LockError(DsbuildError):
    """The world differs from the lock: a file, tokenizer or template was added, removed or changed."""

    exit_code = 7
    title = "hash mismatch"


class NonDeterministicError(DsbuildError):
    """One action gave two contents."""

    exit_code = 8
    title = "non-deterministic"


class MachineError(DsbuildError):
    """This machine lacks a library, or has another class of it than the lock says."""

    exit_code = 9
    title = "environment"


class StoppedError(DsbuildError):
    """The user stopped the work; what was published stays."""

    exit_code = 130
    title = "interrupted"


KINDS: dict[str, str] = {
    # kind: meaning. Append only.
    "internal": "a bug in dsbuild; please report it with the traceback",
    "bad-toml": "the recipe is not TOML (or JSON)",
    "unknown-key": "a key that this table does not have",
    "unknown-node": "a name that no table of the recipe defines",
    "unknown-handler": "a handler name that is neither built in nor installed",
    "unknown-reader": "a format that no reader serves",
    "missing-key": "a required key is absent",
    "bad-type": "a value of another type than the key takes",
    "bad-value": "a value of the right type that the key does not take",
    "bad-name": "a node, column or root name with characters that are not allowed",
    "missing-column": "a handler or the examples need a column that does not exist there",
    "cycle": "nodes that need each other",
    "not-yet": "parsed, but not served by this release; refused instead of ignored",
    "conflict": "two keys or nodes that exclude each other",
    "leak": "a source without splits feeds two mixtures",
    "empty": "a node without records or examples where some are needed",
    "no-such-file": "a file or directory that does not exist",
    "no-match": "a pattern that matches no file",
    "not-a-file": "a directory or device where a file should be",
    "unreadable": "a file that may not be read",
    "bad-tokenizer": "a tokenizer file that does not load, or a token that is not one id",
    "bad-python": "user Python that does not load or imports what it may not",
    "impure": "user Python that did what a build may not depend on",
    "bad-expression": "an expression that does not parse or names what it may not",
    "missing-lock": "no lock beside the recipe, and --locked forbids making one",
    "bad-lock": "a lock file that does not parse",
    "lock-mismatch": "a file, tokenizer or template was added, removed or changed since the lock",
    "library-class": "a library of another class than the lock says",
    "missing-library": "an optional library is not installed",
    "bad-record": "a record that does not parse",
    "bad-encoding": "bytes that are not UTF-8",
    "handler-error": "a handler raised on a record",
    "source-changed": "a source file changed while it was being built",
    "worker-lost": "a worker process died and its retries were used up",
    "record-too-long": "a record longer than [examples] allows",
    "not-found": "a digest, root or store that does not exist",
    "not-built": "a hash whose parts are not all in the store",
    "ambiguous": "a digest prefix that fits several",
    "corrupt": "stored bytes that differ from what was published",
    "store-format": "a store of a format that this release does not know",
    "store-locked": "another process holds a lock of the store for too long",
    "disk-full": "no space left on the device",
    "read-only": "the store can't be written",
    "io-error": "the operating system refused",
    "non-deterministic": "the same action gave two contents",
    "out-of-range": "a step, rank or example past the end",
    "interrupted": "stopped by the user",
    "too-few-records": "a split that counts more records than its source has",
    "not-in-stream": "a record that no example of the mixture has: filtered, dropped, or in another split",
}

CLASSES: tuple[type[DsbuildError], ...] = (
    BuildError,
    RecipeError,
    NotFoundError,
    CorruptError,
    StorageError,
    LockError,
    NonDeterministicError,
    MachineError,
    StoppedError,
    DsbuildError,
)
"""Every class with its exit code, for the reference page."""
