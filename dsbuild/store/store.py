"""Store: the handle through which everything else reads and publishes. Cheap to open, safe to pickle, no state."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dsbuild.digest import Digest, Domain, of_bytes
from dsbuild.errors import CorruptError, StorageError
from dsbuild.records import Records
from dsbuild.schema import Schema
from dsbuild.store import cuts, lease, manifest, objects, prefix, publish, realisation, start
from dsbuild.store.disk import Disk
from dsbuild.store.layout import Layout, check_format
from dsbuild.store.lease import Lease
from dsbuild.store.manifest import Manifest
from dsbuild.store.objects import Published
from dsbuild.store.realisation import Realisation
from dsbuild.store.roots import Roots
from dsbuild.store.stored import StoredObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store on a local file system at ``root``. Make one with ``Store.open``.

    What is returned was verified or says how it will be; all errors are ``DsbuildError``: ``StorageError`` where the
    file system refuses (kinds disk-full, read-only, io-error), ``CorruptError`` where bytes are not what was published.
    """

    root: Path
    readonly: bool = False
    disk: Disk = field(default_factory=Disk, repr=False)

    @classmethod
    def open(cls, root: Path, *, create: bool = False, readonly: bool = False, disk: Disk | None = None) -> Store:
        """The store at ``root``; with ``create`` it is made if there is none (in an empty or absent directory).

        Raises ``NotFoundError`` where there is no store, ``StorageError`` kind ``store-format`` for a newer format.
        """
        store = cls(root=Path(os.path.abspath(root)), readonly=readonly, disk=disk or Disk())
        if create and not readonly and not os.path.exists(store.layout.format):
            start.create(store.layout, store.disk)
        check_format(store.layout)
        return store

    @property
    def layout(self) -> Layout:
        """Where things lie."""
        return Layout(str(self.root))

    def write(self, schema: Schema, blocks: Iterable[Records]) -> Published:
        """Publish the records of ``blocks`` (columns of ``schema``) as one object; durable on return.

        Idempotent: what is there already is not written again. Raises ``ValueError`` where a block does not fit.
        """
        self._check_writable()
        return objects.write(self.layout, self.disk, schema, blocks)

    def object(self, content: Digest, *, verify: str = "first-touch") -> StoredObject:
        """The object of ``content``, open for reading. ``verify``: see ``StoredObject``.

        Raises ``NotFoundError`` and ``CorruptError``.
        """
        return StoredObject(self.layout, content, verify)

    def has_object(self, content: Digest) -> bool:
        """Whether the store has an object of ``content``."""
        return any(
            os.path.exists(f"{self.layout.encoding(content, encoding)}/files")
            for encoding in self.layout.encodings(content)
        )

    def claim(self, content: Digest) -> bool:
        """``has_object``; and if so the object is marked as wanted, so that a collector leaves it to this builder."""
        self._check_writable()
        return objects.look(self.layout, self.disk, content) is not None

    def realisation(self, key: Digest) -> Realisation | None:
        """What action ``key`` gave, None if that is not known. Raises ``CorruptError``; ``realise`` replaces damage."""
        return realisation.find(self.layout, key)

    def realise(self, key: Digest, found: Realisation) -> Realisation:
        """Record, durably, what action ``key`` gave; the record that stands in the end.

        Create-only: an earlier record of the same content is returned, one of another content raises
        ``NonDeterministicError``. Publish the object first.
        """
        self._check_writable()
        return realisation.record(self.layout, self.disk, key, found)

    def manifest(self, derivation: Digest) -> Manifest | None:
        """The parts of ``derivation``, mapped and verified; None if it is not built. Raises ``CorruptError``."""
        return manifest.find(self.layout, derivation)

    def publish_manifest(self, found: Manifest) -> None:
        """Publish the parts of a derivation, durably. Raises ``NonDeterministicError`` if others are there."""
        self._check_writable()
        manifest.record(self.layout, self.disk, found)

    def derivation(self, digest: Digest) -> bytes | None:
        """The canonical bytes of a derivation, None if it is not in the store. Raises ``CorruptError``."""
        path = self.layout.derivation(digest)
        data = publish.read(path)
        if data is not None and of_bytes(Domain.DERIVATION, data) != digest:
            raise CorruptError(f"{path}: its bytes differ from what was published", kind="corrupt", hint=objects.HINT)
        return data

    def put_derivation(self, digest: Digest, data: bytes) -> None:
        """Publish the canonical bytes of a derivation. Raises ``ValueError`` if ``digest`` is not theirs."""
        self._check_writable()
        if of_bytes(Domain.DERIVATION, data) != digest:
            raise ValueError(f"{digest} is not the digest of these {len(data)} bytes")
        publish.create(self.layout, self.disk, self.layout.derivation(digest), data, lambda _: False)

    def cut_table(self, key: Digest) -> bytes | None:
        """The cut table of ``key``; None if it is not known or damaged (it can be made again)."""
        return cuts.read_cut_table(self.layout, key)

    def put_cut_table(self, key: Digest, data: bytes) -> None:
        """Publish a cut table. Raises ``NonDeterministicError`` if another one is there."""
        self._check_writable()
        cuts.put_cut_table(self.layout, self.disk, key, data)

    def resolve(self, text: str) -> Digest:
        """The derivation that ``text`` (hexadecimal digits, perhaps not all 64) begins.

        Raises ``NotFoundError``, kind ``ambiguous`` where it begins several.
        """
        return prefix.resolve(self.layout, text)

    @property
    def roots(self) -> Roots:
        """The names that keep things alive."""
        return Roots(self.layout, self.disk)

    @contextmanager
    def lease(self, derivations: Sequence[Digest], *, building: bool = True) -> Iterator[Lease]:
        """Protect ``derivations`` and their closure for the duration of the block; durable when it begins.

        With ``building`` everything that anyone publishes meanwhile is protected too; readers pass False.
        """
        if self.readonly:
            yield Lease(derivations=tuple(derivations), building=building, path=None)
            return
        with lease.hold(self.layout, self.disk, derivations, building=building) as held:
            yield held

    def partial(self, derivation: Digest, actions: Sequence[Digest]) -> None:
        """Protect the realisations of ``actions`` for 14 days: those of a build under way.

        Call it under a lease and before looking the realisations up.
        """
        self._check_writable()
        lease.begin_partial(self.layout, self.disk, derivation, actions)

    def forget_partial(self, derivation: Digest) -> None:
        """End what ``partial`` began: the build is complete, or given up."""
        self._check_writable()
        lease.end_partial(self.layout, self.disk, derivation)

    def cache_directory(self) -> Path:
        """A directory for what can be made again at any time (stat cache, proofs of engines)."""
        return self.root / "cache"

    def _check_writable(self) -> None:
        if self.readonly:
            raise StorageError(f"{self.root}: opened for reading only", kind="read-only", hint="open it for writing")
