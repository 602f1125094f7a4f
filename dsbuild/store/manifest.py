"""Manifest: the ordered parts of a derivation that is built, as arrays in one memory-mapped file.

Format: one line of sealed JSON, padded with blanks to a multiple of 64 bytes, then little-endian arrays, each at a
multiple of 64. The header has the BLAKE3 of all that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError, NonDeterministicError
from dsbuild.schema import Schema
from dsbuild.store import mapping
from dsbuild.store.disk import Disk
from dsbuild.store.layout import Layout
from dsbuild.store.publish import create
from dsbuild.store.sealed import member, seal, unseal

_ALIGN = 64
_MOST_HEADER = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Manifest:
    """n parts in order. ``actions``, ``contents``: uint8[n, 32]; ``records``: int64[n].

    ``elements``, ``longest``: int64[n] by ragged column (values; most values of one record). Part i is made of the
    source segments ``part_segments[i]`` to ``part_segments[i + 1]`` (int64[n + 1]); segment j begins with record
    ``segment_first[j]`` of file ``segment_file[j]`` (ordinal in the source's list) (both int64[m]).
    ``starts``: prefix sums int64[n + 1] of ``elements`` by column and, under "", of ``records``; made where absent.
    """

    derivation: Digest
    schema: Schema
    actions: np.ndarray
    contents: np.ndarray
    records: np.ndarray
    elements: Mapping[str, np.ndarray]
    longest: Mapping[str, np.ndarray]
    part_segments: np.ndarray
    segment_file: np.ndarray
    segment_first: np.ndarray
    starts: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.starts:
            sums = {name: _prefix(counts) for name, counts in [("", self.records), *self.elements.items()]}
            object.__setattr__(self, "starts", sums)
        for name, kind, found in self._arrays():
            shape = self._shape(name)
            if found.dtype != kind or found.shape != shape:
                raise ValueError(f"manifest array {name!r} is {found.dtype}{found.shape}, not {kind}{shape}")

    def __len__(self) -> int:
        return len(self.records)

    @property
    def total(self) -> int:
        """Number of records of all parts."""
        return int(self.starts[""][-1])

    @property
    def record_starts(self) -> np.ndarray:
        """int64[n + 1]: number of the first record of each part, and the total."""
        return self.starts[""]

    def element_starts(self, column: str) -> np.ndarray:
        """int64[n + 1]: values of a ragged column before each part, and the total."""
        return self.starts[column]

    def action(self, part: int) -> Digest:
        """The action key of a part."""
        return Digest(self.actions[part].tobytes())

    def content(self, part: int) -> Digest:
        """The content digest of a part."""
        return Digest(self.contents[part].tobytes())

    def _shape(self, name: str) -> tuple[int, ...]:
        n, kind = len(self.records), name.partition("/")[0]
        if kind in ("actions", "contents"):
            return (n, 32)
        if kind in ("segment_file", "segment_first"):
            return (len(self.segment_file),)
        return (n + 1,) if kind in ("starts", "part_segments") else (n,)

    def _arrays(self) -> Iterator[tuple[str, np.dtype[Any], np.ndarray]]:
        """Every array in the order of the file, with its name and dtype."""
        int64, uint8 = np.dtype("<i8"), np.dtype("u1")
        yield "actions", uint8, self.actions
        yield "contents", uint8, self.contents
        yield "records", int64, self.records
        yield "part_segments", int64, self.part_segments
        yield "segment_file", int64, self.segment_file
        yield "segment_first", int64, self.segment_first
        for kind, group in (("elements", self.elements), ("longest", self.longest), ("starts", self.starts)):
            for column in sorted(group):
                yield f"{kind}/{column}", int64, group[column]


def _prefix(counts: np.ndarray) -> np.ndarray:
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def render(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    body, places = bytearray(), []
    for name, kind, array in manifest._arrays():
        body += bytes(-len(body) % _ALIGN)
        places.append([name, kind.str, list(array.shape), len(body)])
        body += np.ascontiguousarray(array).tobytes()
    header = seal(
        {
            "arrays": places,
            "blake3": of_bytes(Domain.FILE, body).hex,
            "derivation": manifest.derivation.hex,
            "dsbuild": 1,
            "schema": manifest.schema.as_json(),
            "size": len(body),
        }
    )
    return header[:-1] + b" " * (-len(header) % _ALIGN) + b"\n" + bytes(body)


def parse(derivation: Digest, raw: np.ndarray, path: str) -> Manifest:
    """The manifest in ``raw`` (uint8), its arrays views of it. Raises ``CorruptError`` naming ``path``."""
    start = _header_size(raw)
    line = raw[:start].tobytes().rstrip(b" \n") + b"\n"
    value = unseal(line, path)
    body = raw[start:]
    if value.get("derivation") != derivation.hex or value.get("dsbuild") != 1:
        raise CorruptError(f"{path}: is the manifest of {value.get('derivation')!r}", kind="corrupt")
    if len(body) != value.get("size") or of_bytes(Domain.FILE, body.data).hex != value.get("blake3"):
        raise CorruptError(f"{path}: its arrays differ from what was published", kind="corrupt")
    found: dict[str, np.ndarray] = {}
    groups: dict[str, dict[str, np.ndarray]] = {"elements": {}, "longest": {}, "starts": {}}
    try:
        for name, kind, shape, at in member(value, "arrays", list, path):
            array = _view(body, np.dtype(kind), tuple(shape), at)
            group, slash, column = name.partition("/")
            if slash:
                groups[group][column] = array
            else:
                found[name] = array
        schema = Schema.from_json(member(value, "schema", dict, path))
        return Manifest(derivation=derivation, schema=schema, **found, **groups)  # type: ignore[arg-type]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptError(f"{path}: {error}", kind="corrupt") from error


def _header_size(raw: np.ndarray) -> int:
    for start in range(0, min(len(raw), _MOST_HEADER), 4096):
        at = raw[start : start + 4096].tobytes().find(b"\n")
        if at >= 0:
            return start + at + 1
    return len(raw)


def _view(body: np.ndarray, kind: np.dtype[Any], shape: tuple[int, ...], at: int) -> np.ndarray:
    size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
    if kind.hasobject or at < 0 or min(shape, default=0) < 0 or at + size > len(body):
        raise ValueError(f"an array of {shape} {kind} at {at} does not fit {len(body)} bytes")
    return body[at : at + size].view(kind).reshape(shape)


def find(layout: Layout, derivation: Digest) -> Manifest | None:
    """The manifest of ``derivation``, mapped and verified, if any. Raises ``CorruptError``."""
    path = layout.manifest(derivation)
    raw = mapping.load_file(path)
    return None if raw is None else parse(derivation, raw, path)


def record(layout: Layout, disk: Disk, manifest: Manifest) -> None:
    """Publish ``manifest``. See ``Store.publish_manifest``."""
    path = layout.manifest(manifest.derivation)

    def keep(there: bytes) -> bool:
        try:
            found = parse(manifest.derivation, np.frombuffer(there, np.uint8), path)
        except CorruptError:
            return False
        differs = len(found) != len(manifest) or (found.contents != manifest.contents).any(axis=1)
        if np.any(differs):
            part = int(np.argmax(differs))
            raise NonDeterministicError(
                f"derivation {manifest.derivation.short}: part {part} differs from the one that was published before",
                kind="non-deterministic",
                hint="'dsbuild build --check' shows the first record that differs",
            )
        return False

    create(layout, disk, path, render(manifest), keep)
