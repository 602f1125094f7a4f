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

TOKENS = ("input_ids", "labels")
"""The columns that have a number for each token."""


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
class StageSpec:
    """Exact positive ``weights`` by source name, from example ``first`` on; ``path``: where they stand."""

    first: int
    weights: Mapping[str, Fraction]
    path: KeyPath = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSpec:
    """``[mixture.NAME]``. ``weights`` of the recipe are one stage from 0.

    ``stages``: ascending, the first from 0; a source may be in some only. ``until``: "first", "all" or epochs.
    ``by``: "records" or "tokens", what weights are shares of. ``max_epochs``: caps by source name.
    """

    name: str
    stages: tuple[StageSpec, ...]
    until: str | Fraction = "all"
    by: str = "records"
    max_epochs: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all sources of all stages, each once, in the order of the recipe."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.weights))

    def place(self, source: str) -> KeyPath:
        """Where the mixture first weighs ``source``."""
        path = next((stage.path for stage in self.stages if source in stage.weights), ("mixture", self.name))
        return (*path, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShuffle:
    """``{ block, window }``: blocks of ``block`` neighbours are permuted, then examples in ``window`` blocks."""

    block: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EraShuffle:
    """``{ era }``: each ``era`` successive examples are permuted among themselves."""

    era: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesSpec:
    """``[examples]``: how records become what the model sees. ``columns`` empty = ``input_ids`` (and ``labels``).

    ``shuffle``: "full", "none", or by blocks or eras. ``pad``: static lengths of ragged columns, by name.
    """

    length: int
    pack: str = "concat"
    mask: str = "none"
    shuffle: str | BlockShuffle | EraShuffle = "full"
    overlong: str = "error"
    columns: tuple[str, ...] = ()
    pad: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_tokens(self) -> bool:
        """Whether examples have tokens: only ``pack = "none"`` may leave them out, by ``columns`` without them."""
        return self.pack != "none" or not self.columns or "input_ids" in self.columns


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
