"""The doors: five Protocols through which everything that can be replaced comes in, and the values they exchange.

Each door has a conformance suite in ``dsbuild.testing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dsbuild.canon import Value
from dsbuild.digest import Digest
from dsbuild.records import Records
from dsbuild.schema import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a plug-in, as users write it in a recipe.

    ``type``: "text", "integer", "decimal", "boolean", "names" (list of text), "mapping" (text to text), "value"
    (anything). ``choices``: the texts allowed, empty = any. ``default`` None = no value when absent.
    """

    name: str
    type: str
    doc: str
    default: Value = None
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRule:
    """How files are cut in parts (version 1). Everything follows from ``part_bytes`` of decoded input.

    A border may stand after at least 3/4 of ``part_bytes``, is chosen by content, and is forced at 3/2. Files under
    ``part_bytes`` / 1024 are grouped, to at most ``part_bytes`` / 64 a group.
    """

    part_bytes: int = 64 << 20
    version: int = 1

    @property
    def least(self) -> int:
        """Bytes before which no border is chosen."""
        return self.part_bytes * 3 // 4

    @property
    def most(self) -> int:
        """Bytes at which a border is forced (after the record that reaches it)."""
        return self.part_bytes * 3 // 2

    @property
    def small(self) -> int:
        """Files under this size are grouped."""
        return self.part_bytes // 1024

    @property
    def group(self) -> int:
        """A group of small files is at most this size."""
        return self.part_bytes // 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A run of records of one file: ``start``, ``stop`` in the reader's units (decoded bytes, row groups, batches).

    ``stop`` None = the end. ``first``: number in the file of its first record. ``content``: BLAKE3 of the
    decoded range.
    """

    start: int
    stop: int | None
    first: int
    content: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTable:
    """The cuts of a file, in order, covering it; ``context``: what else a part's meaning needs (CSV header, schema)."""

    cuts: tuple[Cut, ...]
    context: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A record left out under ``on_error = "skip"``: its number in the file, byte position or line, and why."""

    record: int
    place: str
    reason: str


@runtime_checkable
class Reader(Protocol):
    """Reads files of one format. Stateless; ``arguments`` are the checked values of ``read = {…}``.

    Blocks have ``@key``, ``@record`` (here: number of the record inside the *cut*, from 0) and the file's fields, of at
    most a few MiB each. A damaged or malformed record raises ``BuildError`` (kinds ``bad-record``, ``bad-encoding``)
    naming file and line or byte, unless ``skipped`` is a list, which then gets a ``Skip``.
    """

    name: str
    version: int
    suffixes: tuple[str, ...]
    arguments: tuple[Argument, ...]

    def whole(self, path: Path, size: int, rule: CutRule) -> bool:
        """Whether a file of ``size`` bytes is one cut by rule, its content being the file's own BLAKE3, unread."""
        ...

    def split(self, path: Path, rule: CutRule, arguments: Mapping[str, Value]) -> CutTable:
        """Cut a file by one pass over it."""
        ...

    def read(
        self,
        path: Path,
        cut: Cut,
        context: Mapping[str, Value],
        arguments: Mapping[str, Value],
        *,
        columns: frozenset[str] | None = None,
        skipped: list[Skip] | None = None,
    ) -> Iterator[Records]:
        """The records of a cut, in order, in blocks; only ``columns`` where given (others may be left out)."""
        ...

    def locate(
        self, path: Path, cut: Cut, context: Mapping[str, Value], arguments: Mapping[str, Value], record: int
    ) -> str:
        """Where record number ``record`` of a cut stands, for people: "line 17", "row 5"."""
        ...


class RecordError(Exception):
    """A handler's complaint about row ``row`` of the Records it was given; the worker adds file and record."""

    def __init__(self, row: int, message: str, kind: str = "handler-error", hint: str | None = None) -> None:
        super().__init__(row, message, kind, hint)
        self.row, self.message, self.kind, self.hint = row, message, kind, hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a handler does to columns, known before any record is read.

    ``needs``: the columns it reads, None = any. ``adds``: typed fields it makes. ``removes``: columns it takes away.
    ``opens``: whether it may make fields whose names are not known. ``renames``, ``copies``: old -> new names.
    """

    needs: frozenset[str] | None = frozenset()
    adds: tuple[Field, ...] = ()
    removes: frozenset[str] = frozenset()
    keeps_only: frozenset[str] | None = None
    opens: bool = False
    renames: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the recipe and its lock know, offered to ``Handler.resolve``; a handler takes only what it uses."""

    seed: int
    tokenizer: Digest | None = None
    vocabulary: int = 0
    eos: int | None = None
    bos: int | None = None
    special: str = "text"
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a handler needs at work beside its arguments; every item is named in the arguments by its digest.

    ``tokenizer`` loads on call. ``modules``: normalised source by module name, for user Python; ``lines``: for each
    of its lines the line of the user's file, for messages only (see ``recipe.code``).
    """

    tokenizer: Callable[[], Tokenizer] | None = None
    modules: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)


@runtime_checkable
class Handler(Protocol):
    """Makes records of records; pure; never sees the store. Its class is called with (arguments, resources).

    ``arguments`` (class attribute) are those that users write; an instance is made of what ``resolve`` returns, which
    is also what is hashed (values equal to the default are left out there).
    """

    name: str
    version: int
    arguments: tuple[Argument, ...]

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The hashed arguments, of the checked ones that users wrote (defaults not filled in) and of ``facts``.

        Raises ``ValueError`` with a message for the user where the arguments make no sense together.
        """
        ...

    def effect(self) -> Effect:
        """What it does to columns."""
        ...

    def apply(self, records: Records) -> Records:
        """The records made of ``records``; ``@key`` and ``@record`` are inherited. Raises ``RecordError``."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """Text to token ids. ``size``: number of ids. ``fingerprint``: changes whenever ids can change."""

    size: int

    @property
    def fingerprint(self) -> Digest:
        """Digest of all that decides ids."""
        ...

    def encode(self, texts: Sequence[str], *, special: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(values of uint16 or uint32, int64 offsets) of ``texts``, no special tokens added.

        ``special``: whether the text of a special token becomes its id; else no text gives the id of one (but that of
        the unknown token). Raises ``RecordError`` with the number of the text that can't be encoded.
        """
        ...

    def token(self, text: str) -> int | None:
        """The id of one special or ordinary token, None if ``text`` is not exactly one."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ``ids``, for people."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an executor yields for a task: its ``value``, or the ``error`` that ended it."""

    task: Any
    value: Any = None
    error: BaseException | None = None


class Executor(Protocol):
    """Runs tasks somewhere. It cannot change bytes, so it has no identity."""

    def run(self, tasks: Iterable[Any], work: Callable[[Any], Any]) -> Iterator[Done]:
        """Each task once (or its error), in any order; a lost worker is a retry or an error, never a hang.

        ``tasks`` is drawn from lazily, with a bounded number in flight. Closing the iterator stops the workers.
        """
        ...


class Backend(Protocol):
    """Where a store's bytes live. Names are relative POSIX paths, validated at the door."""

    def get(self, name: str, start: int = 0, size: int | None = None) -> bytes:
        """Bytes of a range; raises ``NotFoundError``."""
        ...

    def put(self, name: str, data: bytes) -> bool:
        """Create ``name`` atomically and durably; False if it exists already (it is then left as it is)."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes of ``name``, None if absent."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Sorted names under ``prefix``."""
        ...

    def delete(self, name: str) -> None:
        """Remove ``name``; absent is fine."""
        ...
