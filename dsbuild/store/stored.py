"""StoredObject: a published part as arrays over its mapped files, each 64 KiB verified before its first use.

Safe against damage: sizes are checked before mapping (a map over a shrunken file kills the process), the listing is
proved by the directory's name, and no byte is handed out as verified that does not hash to what the listing says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError, NotFoundError
from dsbuild.records import Records, unflatten
from dsbuild.schema import Schema
from dsbuild.store import mapping
from dsbuild.store.flatshards import Array, arrays, parse_top
from dsbuild.store.layout import Layout
from dsbuild.store.listing import BLOCK, Entry, Listing, of_file
from dsbuild.store.objects import HINT, load_listing
from dsbuild.store.publish import read

POLICIES = ("first-touch", "open", "never")


class _Mapped:
    """One array of an object: its bytes, and which of its blocks are verified."""

    __slots__ = ("_address", "_blocks", "_done", "_row_bytes", "_what", "array", "left", "raw", "view")

    def __init__(self, owner: StoredObject, array: Array, what: str, *, trust: bool) -> None:
        self.array, self._what = array, what
        names = [array.shard_path(i) for i in range(array.shards)]
        listed = [owner.entry(f"data.zarr/{name}", what) for name in names]
        self._blocks: list[bytes] = []
        self.raw = np.zeros(0, np.uint8)
        if names:
            paths = [f"{owner.path}/data.zarr/{name}" for name in names]
            if len(names) > 1 and array.payload % BLOCK:
                trust = trust or _verify_whole(paths, listed, what)
            try:
                self.raw = mapping.load(paths, [entry.size for entry in listed], array.payload)
            except CorruptError as error:
                raise CorruptError(f"{what}: {error}", kind="corrupt", hint=HINT) from None
        size = array.shape[0] * array.row_bytes
        if size > len(self.raw):
            raise CorruptError(f"{what}: {len(self.raw)} bytes for {size} bytes of values", kind="corrupt", hint=HINT)
        self.view = self.raw[:size].view(array.numpy).reshape(array.shape)
        for i, entry in enumerate([] if trust else listed):
            used = entry.blocks if i == len(listed) - 1 else array.payload // BLOCK
            self._blocks += [entry.digest.raw] if entry.first < 0 else owner.rows(entry.first, used)
        self._done = bytearray(len(self._blocks))
        self._row_bytes = array.row_bytes
        self._address = int(self.raw.__array_interface__["data"][0])
        self.left = min(len(self._blocks), -(-size // BLOCK))  # what follows the values is read by nobody

    def touch(self, start: int, stop: int) -> None:
        """Verify the blocks of rows ``start`` to ``stop`` that are not verified yet."""
        if not self.left or start >= stop:
            return
        first, last = start * self._row_bytes // BLOCK, (stop * self._row_bytes - 1) // BLOCK
        at = self._done.find(0, first, last + 1)
        if at >= 0:
            mapping.advise(self._address + at * BLOCK, (last + 1 - at) * BLOCK, mapping.WILL_NEED)
        while at >= 0:
            self._verify(at)
            at = self._done.find(0, at + 1, last + 1)

    def scattered(self) -> None:
        """Tell the kernel that rows will be touched in no order, so that it reads no more than what is touched."""
        mapping.advise(self._address, len(self.raw), mapping.RANDOM)

    def _verify(self, block: int) -> None:
        data = self.raw[block * BLOCK : (block + 1) * BLOCK]
        if of_bytes(Domain.FILE, data.data).raw != self._blocks[block]:
            per = max(self.array.payload // BLOCK, 1) if self.array.shards > 1 else len(self._blocks)
            name, inside = self.array.shard_path(block // per), block % per
            raise CorruptError(
                f"{self._what}: data.zarr/{name}, block {inside} (bytes {inside * BLOCK} to "
                f"{inside * BLOCK + len(data)}) differs from what was published",
                kind="corrupt",
                hint=HINT,
            )
        if not self._done[block]:
            self._done[block] = 1
            self.left -= 1


def _verify_whole(paths: list[str], listed: list[Entry], what: str) -> bool:
    """Verify files of which several share a block in memory, so that blocks can't be verified one by one."""
    for path, entry in zip(paths, listed, strict=True):
        if of_file(path) != entry.digest:
            raise CorruptError(f"{what}: {path} differs from what was published", kind="corrupt", hint=HINT)
    return True


@dataclass(frozen=True, slots=True)
class _Column:
    values: _Mapped
    offsets: _Mapped | None


class StoredObject:
    """An object of the store, open for reading. ``records`` rows of ``schema``; ``content`` names it.

    Policies of verification: ``first-touch`` (each block when ``touch`` first meets it; offsets when the column is
    first used), ``open`` (everything at once), ``never``. Columns are mapped on first use. Threads may share it.
    """

    __slots__ = ("_columns", "_counts", "_rows", "_verify", "content", "listing", "path", "records", "schema")

    def __init__(self, layout: Layout, content: Digest, verify: str = "first-touch") -> None:
        if verify not in POLICIES:
            raise ValueError(f"policy {verify!r} is none of {', '.join(POLICIES)}")
        self.content, self._verify = content, verify
        self.listing, self.path = _choose(layout, content)
        self._rows = self._load_rows()
        self._columns: dict[str, _Column] = {}
        path = f"{self.path}/data.zarr/zarr.json"
        data, entry = read(path), self.listing.entries.get("data.zarr/zarr.json")
        if data is None or entry is None or of_bytes(Domain.FILE, data) != entry.digest:
            raise CorruptError(f"{self._name}: data.zarr/zarr.json is gone or damaged", kind="corrupt", hint=HINT)
        try:
            self.schema, self.records, self._counts = parse_top(data)
        except ValueError as error:
            raise CorruptError(f"{self._name}: data.zarr/zarr.json: {error}", kind="corrupt") from error
        if verify == "open":
            self.touch_all()

    @property
    def _name(self) -> str:
        return f"object {self.content.short}"

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return self.listing.size

    def _load_rows(self) -> bytes:
        if self.listing.blocks is None:
            return b""
        data = read(f"{self.path}/blocks")
        if data is None or of_bytes(Domain.FILE, data) != self.listing.blocks or len(data) != 32 * self.listing.rows:
            raise CorruptError(f"{self._name}: blocks is gone or damaged", kind="corrupt", hint=HINT)
        return data

    def entry(self, path: str, what: str) -> Entry:
        """The listed file ``path``. Raises ``CorruptError`` naming ``what``."""
        found = self.listing.entries.get(path)
        if found is None:
            raise CorruptError(f"{what}: {path} is not listed", kind="corrupt", hint=HINT)
        return found

    def rows(self, first: int, count: int) -> list[bytes]:
        """Digests ``first`` to ``first + count`` of ``blocks``."""
        return [self._rows[32 * i : 32 * (i + 1)] for i in range(first, first + count)]

    def column(self, name: str) -> tuple[np.ndarray, np.ndarray | None]:
        """The flat form of a column as read-only views: (values, int64 offsets or None).

        Offsets are verified here. Values are not, but under "open": call ``touch`` for what is used. Raises
        ``KeyError`` for a column that it has not and ``CorruptError`` for damage.
        """
        column = self._column(name)
        return column.values.view, None if column.offsets is None else column.offsets.view

    def touch(self, name: str, start: int, stop: int) -> None:
        """Make sure that values ``start`` to ``stop`` (first axis) of a column are what was published.

        Raises ``CorruptError`` naming object, column, file and block. Costs well under 1 us when all is verified.
        """
        column = self._columns.get(name) or self._column(name)
        if column.values.left:
            column.values.touch(start, stop)

    def scattered(self, name: str) -> None:
        """Values of a column will be touched in no order: the kernel shall read no more than what is touched."""
        self._column(name).values.scattered()

    def verified(self, name: str) -> bool:
        """Whether all values of a column are verified already, so that ``touch`` has nothing to do."""
        return not self._column(name).values.left

    def touch_all(self) -> None:
        """``touch`` for all values of all columns."""
        for name in self.schema.names:
            values = self._column(name).values
            values.touch(0, values.array.shape[0])

    def records_view(self, names: Iterable[str] | None = None) -> Records:
        """The columns ``names`` (None = all) as Records, verified; number columns are views, not copies."""
        wanted = self.schema.names if names is None else tuple(names)
        fields = [self.schema[name] for name in wanted]
        columns = {}
        for field in fields:
            values, offsets = self.column(field.name)
            self.touch(field.name, 0, len(values))
            columns[field.name] = unflatten(field, values, offsets)
        return Records(schema=Schema.of(*fields), columns=columns)

    def _column(self, name: str) -> _Column:
        found = self._columns.get(name)
        if found is None:
            what = f"{self._name}: column {name!r}"
            values, offsets = arrays(self.schema[name], self.records, self._counts[name])
            trust = self._verify == "never"
            mapped = None if offsets is None else _Mapped(self, offsets, what + " offsets", trust=trust)
            if mapped is not None:
                mapped.touch(0, self.records + 1)
            # of two threads the first one counts: what it was given must not be unmapped
            found = self._columns.setdefault(name, _Column(_Mapped(self, values, what, trust=trust), mapped))
        return found


def _choose(layout: Layout, content: Digest) -> tuple[Listing, str]:
    encodings = layout.encodings(content)
    for i, encoding in enumerate(encodings):
        try:
            return load_listing(layout, content, encoding), layout.encoding(content, encoding)
        except CorruptError:
            if i == len(encodings) - 1:
                raise
    raise NotFoundError(
        f"object {content.short}: not in the store {layout.root}",
        kind="not-found",
        hint="'dsbuild build' makes it again",
    )
