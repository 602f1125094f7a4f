"""Recipe: what a user wrote, parsed, with every number exact and every key's place remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dsbuild.canon import Value
from dsbuild.errors import Where

KeyPath = tuple[str | int, ...]
"""Where a value stands in the tree: ("source", "web", "handlers", 1, "use")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """``[tokenizer]``: ``file`` as written (a path, a directory, or the built-in ``bytes``) and its special tokens."""

    file: str
    eos: str | None = None
    bos: str | None = None
    pad: str | None = None
    special: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSpec:
    """One ``{ use = NAME, … }``. User Python also has ``requires`` (packages) and ``reads`` (data files)."""

    use: str
    arguments: Mapping[str, Value]
    requires: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def python(self) -> tuple[str, str] | None:
        """(file, function) when ``use`` is ``file.py:function``."""
        file, colon, function = self.use.rpartition(":")
        return (file, function) if colon and file.endswith(".py") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """``[source.NAME]``: ``files`` (patterns, as written) or ``inputs`` (``from``), never both, then ``handlers``.

    ``interleave``: 0 for ``order = "files"``, else R. ``split``: name -> fraction (Fraction) or count (int).
    """

    name: str
    files: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    handlers: tuple[HandlerSpec, ...] = ()
    split: Mapping[str, Fraction | int] = field(default_factory=dict)
    interleave: int = 0
    format: str | None = None
    read: Mapping[str, Value] = field(default_factory=dict)
    on_error: str = "error"
    part_bytes: int = 64 << 20
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSpec:
    """``[mixture.NAME]``: exact positive ``weights`` by source name; ``until``: "first", "all" or ("epochs", E)."""

    name: str
    weights: Mapping[str, Fraction]
    until: str | Fraction = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesSpec:
    """``[examples]``: how records become what the model sees. ``columns`` empty = ``input_ids`` (and ``labels``)."""

    length: int
    pack: str = "concat"
    mask: str = "none"
    shuffle: str = "full"
    overlong: str = "error"
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A whole recipe. ``places`` and ``key_places`` map key paths to values and keys in the file, for diagnostics."""

    path: Path
    name: str
    seed: int
    tokenizer: TokenizerSpec | None
    sources: Mapping[str, SourceSpec]
    mixtures: Mapping[str, MixtureSpec]
    examples: ExamplesSpec
    description: str | None = None
    now: str | None = None
    places: Mapping[KeyPath, Where] = field(default_factory=dict, compare=False, repr=False)
    key_places: Mapping[KeyPath, Where] = field(default_factory=dict, compare=False, repr=False)

    @property
    def directory(self) -> Path:
        """The directory that relative paths start from."""
        return self.path.parent

    @property
    def stem(self) -> str:
        """The file name without its suffix: names ``STEM.lock`` and ``STEM.outputs``."""
        return self.path.stem

    def where(self, *key: str | int) -> Where:
        """The place of the value at ``key``, or of its nearest parent that has one, or of the file."""
        return place_of(self.places, key, str(self.path))

    def where_key(self, *key: str | int) -> Where:
        """The place of the key itself (of the value where it is an item of a list), or as ``where``."""
        return self.key_places.get(key) or self.where(*key)


def place_of(places: Mapping[KeyPath, Where], key: KeyPath, path: str) -> Where:
    """The place of ``key``, or of its nearest parent that has one, or of the file ``path``."""
    while key:
        if key in places:
            return places[key]
        key = key[:-1]
    return Where(path=path)
