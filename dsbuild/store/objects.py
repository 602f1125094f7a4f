"""Object: a part written as a Zarr group with its listing, and published by one rename.

Safe because every byte is durable before the rename and the rename is durable before anything refers to it; a crash
leaves only a directory in ``tmp/`` whose lock has died with its writer.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError
from dsbuild.records import Records
from dsbuild.schema import Schema
from dsbuild.store import listing
from dsbuild.store.disk import Disk, refusals
from dsbuild.store.flat import FlatPart, gather
from dsbuild.store.flatshards import Array, arrays, group, top
from dsbuild.store.layout import Layout
from dsbuild.store.listing import BLOCK, Listing
from dsbuild.store.locks import builders, take
from dsbuild.store.publish import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A part in the store. ``elements``, ``longest``: values, and most values of a record, by ragged column.

    ``bytes``: size of its files.
    """

    content: Digest
    encoding: Digest
    records: int
    elements: Mapping[str, int]
    longest: Mapping[str, int]
    bytes: int


@dataclass(slots=True)
class _Writer:
    """Writes the files of one object and remembers what it wrote."""

    disk: Disk
    root: str
    files: dict[str, tuple[int, Digest]] = field(default_factory=dict)
    blocks: dict[str, bytes] = field(default_factory=dict)

    def file(self, path: str, body: memoryview, tail: bytes) -> None:
        """Write ``body`` and then ``tail``, hashing the whole and each block."""
        size = len(body) + len(tail)
        if size <= BLOCK:
            data = bytes(body) + tail
            self.disk.create(f"{self.root}/{path}", [data])
            self.files[path] = (size, of_bytes(Domain.FILE, data))
            return
        whole = len(body) - len(body) % BLOCK
        rest = bytes(body[whole:]) + tail
        self.disk.create(f"{self.root}/{path}", [body[:whole], rest])
        pieces = [body[i : i + BLOCK] for i in range(0, whole, BLOCK)]
        pieces += [memoryview(rest)[i : i + BLOCK] for i in range(0, len(rest), BLOCK)]
        self.blocks[path] = b"".join(of_bytes(Domain.FILE, piece).raw for piece in pieces)
        self.files[path] = (size, listing.digest_of([body[:whole], memoryview(rest)]))

    def array(self, array: Array, values: np.ndarray) -> None:
        """Write an array's metadata and shard files."""
        path = f"data.zarr/{array.path}"
        self.disk.mkdir(f"{self.root}/{path}")
        self.file(f"{path}/zarr.json", memoryview(array.metadata()), b"")
        flat = memoryview(values.reshape(-1).view(np.uint8).data) if values.size else memoryview(b"")
        for shard in range(array.shards):
            body = flat[shard * array.payload : (shard + 1) * array.payload]
            padding = bytes(array.chunks(shard) * array.chunk * array.row_bytes - len(body))
            self.file(f"data.zarr/{array.shard_path(shard)}", body, padding + array.index(shard))

    def part(self, part: FlatPart) -> None:
        """Write the Zarr group."""
        counts = {name: len(column.values) for name, column in part.columns.items()}
        self.disk.mkdir(f"{self.root}/data.zarr")
        self.file("data.zarr/zarr.json", memoryview(top(part.schema, part.records, counts)), b"")
        for column_field in part.schema.fields:
            column = part.columns[column_field.name]
            values, offsets = arrays(column_field, part.records, len(column.values))
            if offsets is not None and column.offsets is not None:
                directory = "data.zarr/" + offsets.path.rpartition("/")[0]
                self.disk.mkdir(f"{self.root}/{directory}")
                self.file(f"{directory}/zarr.json", memoryview(group()), b"")
                self.array(offsets, column.offsets)
            self.array(values, column.values)

    def finish(self, content: Digest) -> Listing:
        """Write ``blocks`` and, last, ``files``."""
        blocks = b"".join(self.blocks[path] for path in sorted(self.blocks))
        if blocks:
            self.disk.create(f"{self.root}/blocks", [blocks])
        data = listing.render(content, self.files, blocks)
        self.disk.create(f"{self.root}/files", [data])
        return listing.parse(data)


def write(layout: Layout, disk: Disk, schema: Schema, blocks: Iterable[Records]) -> Published:
    """Publish the records of ``blocks`` as one object, unless the store has it. See ``Store.write``."""
    part = gather(schema, blocks)
    content = part.content()
    with refusals(layout.contents(content), "publishing"):
        found = look(layout, disk, content) or _publish(layout, disk, part, content)
    ragged = {name: column for name, column in part.columns.items() if column.offsets is not None}
    return Published(
        content=content,
        encoding=found.encoding,
        records=part.records,
        elements={name: len(column.values) for name, column in ragged.items()},
        longest={name: column.longest for name, column in ragged.items()},
        bytes=found.size,
    )


def sound(layout: Layout, content: Digest) -> Listing | None:
    """The listing of an object of ``content`` whose files all have the right sizes; None if there is none."""
    for encoding in layout.encodings(content):
        root = layout.encoding(content, encoding)
        try:
            found = load_listing(layout, content, encoding)
            sizes = {path: os.stat(f"{root}/{path}").st_size for path in found.entries}
        except (CorruptError, OSError):
            continue
        if all(sizes[path] == entry.size for path, entry in found.entries.items()):
            return found
    return None


def load_listing(layout: Layout, content: Digest, encoding: Digest) -> Listing:
    """The listing of an object, proved to be what its path says. Raises ``CorruptError``."""
    path = f"{layout.encoding(content, encoding)}/files"
    data = read(path)
    if data is None:
        raise CorruptError(f"object {content.short}: {layout.short(path)} is gone", kind="corrupt", hint=HINT)
    if listing.encoding_of(data) != encoding:
        raise CorruptError(f"object {content.short}: {layout.short(path)} is damaged", kind="corrupt", hint=HINT)
    try:
        found = listing.parse(data)
    except ValueError as error:
        raise CorruptError(f"object {content.short}: {layout.short(path)}: {error}", kind="corrupt") from error
    if found.content != content:
        raise CorruptError(
            f"object {content.short}: {layout.short(path)} belongs to content {found.content.short}", kind="corrupt"
        )
    return found


HINT = "'dsbuild verify' lists all damage; what is damaged is built again after its object is removed"


def look(layout: Layout, disk: Disk, content: Digest) -> Listing | None:
    """The object if it is there, marked as wanted now, so that a collector leaves it to the living builder."""
    if not os.path.isdir(layout.contents(content)):
        return None
    with builders(layout):
        found = sound(layout, content)
        if found is not None:
            disk.touch(layout.contents(content))
            disk.fsync(layout.contents(content))  # its publisher may have died before its own fsync
    return found


def _publish(layout: Layout, disk: Disk, part: FlatPart, content: Digest) -> Listing:
    with _workplace(layout, disk) as place:
        writer = _Writer(disk, place)
        writer.part(part)
        found = writer.finish(content)
        _make_contents(layout, disk, content, durable=False)
        disk.syncfs(place)
        with builders(layout):
            _settle(layout, disk, place, content, found.encoding)
    return found


@contextmanager
def _workplace(layout: Layout, disk: Disk) -> Iterator[str]:
    """A locked directory in ``tmp/``; removed unless it was renamed, also when the disk is full."""
    place = layout.fresh("tmp")
    with builders(layout):
        disk.mkdir(place)
        lock = take(place, exclusive=True)
    try:
        yield place
    except BaseException:
        with suppress(OSError):
            disk.remove_tree(place)
        raise
    finally:
        os.close(lock)


def _make_contents(layout: Layout, disk: Disk, content: Digest, *, durable: bool) -> None:
    path = layout.contents(content)
    prefix = os.path.dirname(path)
    for directory in (prefix, path):
        if not os.path.isdir(directory) and disk.mkdir(directory) and durable:
            disk.fsync(os.path.dirname(directory))


def _settle(layout: Layout, disk: Disk, place: str, content: Digest, encoding: Digest) -> None:
    """Rename ``place`` into ``objects/``; if a sound one came first, drop ours; a damaged one makes way."""
    home, target = layout.contents(content), layout.encoding(content, encoding)
    _make_contents(layout, disk, content, durable=True)  # a collector may have removed it as empty
    while True:
        if os.path.isdir(target):
            there = sound(layout, content)
            if there is not None and there.encoding == encoding:
                disk.remove_tree(place)
                disk.touch(home)
                break
            disk.rename(target, layout.fresh("trash"))
        try:
            disk.rename(place, target)
            break
        except OSError as error:  # another publisher of the same content came between: look again
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    disk.fsync(home)
