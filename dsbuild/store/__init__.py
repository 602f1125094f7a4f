"""The store: parts as immutable Zarr objects named by content, and the small records that refer to them.

Words: an *object* is one part on disk; a *realisation* says which content an action gave; a *manifest* lists the parts
of a derivation; a *root* or *lease* keeps what it names from being collected. Zarr is known here only.
"""

from dsbuild.store.compare import Damage
from dsbuild.store.disk import Disk
from dsbuild.store.find import find_store
from dsbuild.store.gc import GcReport, collect
from dsbuild.store.lease import Lease
from dsbuild.store.manifest import Manifest
from dsbuild.store.objects import Published
from dsbuild.store.realisation import Realisation
from dsbuild.store.roots import Root, Roots
from dsbuild.store.store import Store
from dsbuild.store.stored import StoredObject
from dsbuild.store.verify import VerifyReport, verify

__all__ = [
    "Damage",
    "Disk",
    "GcReport",
    "Lease",
    "Manifest",
    "Published",
    "Realisation",
    "Root",
    "Roots",
    "Store",
    "StoredObject",
    "VerifyReport",
    "collect",
    "find_store",
    "verify",
]
