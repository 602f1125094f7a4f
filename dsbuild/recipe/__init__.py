"""recipe: what users write, and what the outside world was when they wrote it.

A *recipe* is a TOML (or JSON) file read into a ``Recipe`` with every number exact; its *lock* says which files,
tokenizer and libraries it stands for, so that a hash needs no data. ``load_recipe`` reads the one, ``resolve`` looks at
the world, ``read_lock`` and ``write_lock`` keep the other, ``compare`` tells them apart. Nothing here executes what
users write.
"""

from dsbuild.recipe.change import Change, compare, lock_error, merge
from dsbuild.recipe.content import hash_file
from dsbuild.recipe.locate import Found, locate
from dsbuild.recipe.lock import (
    Lock,
    LockedData,
    LockedFile,
    LockedLibrary,
    LockedSource,
    LockedTokenizer,
    lock_path,
    source_id,
)
from dsbuild.recipe.lockfile import encode_lock, read_lock, write_lock
from dsbuild.recipe.parse import load_recipe, read_recipe
from dsbuild.recipe.statcache import StatCache
from dsbuild.recipe.types import (
    BlockShuffle,
    EraShuffle,
    ExamplesSpec,
    HandlerSpec,
    KeyPath,
    MixtureSpec,
    Recipe,
    SourceSpec,
    StageSpec,
    TokenizerSpec,
)
from dsbuild.recipe.world import TokenizerFacts, World, resolve
from dsbuild.recipe.writing import write_atomically

__all__ = [
    "BlockShuffle",
    "Change",
    "EraShuffle",
    "ExamplesSpec",
    "Found",
    "HandlerSpec",
    "KeyPath",
    "Lock",
    "LockedData",
    "LockedFile",
    "LockedLibrary",
    "LockedSource",
    "LockedTokenizer",
    "MixtureSpec",
    "Recipe",
    "SourceSpec",
    "StageSpec",
    "StatCache",
    "TokenizerFacts",
    "TokenizerSpec",
    "World",
    "compare",
    "encode_lock",
    "hash_file",
    "load_recipe",
    "locate",
    "lock_error",
    "lock_path",
    "merge",
    "read_lock",
    "read_recipe",
    "resolve",
    "source_id",
    "write_atomically",
    "write_lock",
]
