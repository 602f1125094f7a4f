"""dsbuild: Nix for training data.

``open_dataset(target)`` gives a trainer the batches that a hash names. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsbuild.load import Dataset, open_dataset

__version__ = "0.1.0"
__all__ = ["Dataset", "__version__", "open_dataset"]


def __getattr__(name: str) -> Any:
    if name in ("Dataset", "open_dataset"):
        from dsbuild import load

        return getattr(load, name)
    raise AttributeError(f"module 'dsbuild' has no attribute {name!r}")
