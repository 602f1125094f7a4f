"""Leaks: records of one origin that two mixtures see, through other splits than equal ones or through none.

An origin is a bit of an integer, so that a hostile recipe costs no memory. Who looks decides what an origin is: the
recipe alone knows names of sources, with its lock the contents of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dsbuild.recipe.types import KeyPath, MixtureSpec, SourceSpec

Origins = Mapping[str, int]
"""Bits of origins by the kind of their reading: a split parts the records of one reading alike, others it may not."""

_Parting = frozenset[tuple[str, Fraction | int | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """``mixture`` sees through ``source`` records that ``other`` sees through the source ``through``."""

    mixture: MixtureSpec
    source: SourceSpec
    other: str
    through: SourceSpec

    @property
    def place(self) -> KeyPath:
        """Where the mixture weighs the source."""
        return self.mixture.place(self.source.name)

    def message(self, common: str = "") -> str:
        """What is wrong; ``common``: what the two sources have in common, where names do not tell it."""
        name, split = self.source.name, self.source.split
        if name == self.through.name:
            if split:
                return f"source '{name}' reads a file in two ways{common}, and its splits part them in two ways"
            return f"source '{name}' has no splits and feeds '{self.other}' too"
        counted = split and split == self.through.split and any(isinstance(share, int) for share in split.values())
        read = split and split == self.through.split and not counted
        why = (
            "equal counts of two sources take other records"
            if counted
            else "equal splits of files read in other ways take other records"
            if read
            else "not the same splits"
        )
        return f"source '{name}' has records of '{self.through.name}'{common}, which feeds '{self.other}', and {why}"

    @property
    def hint(self) -> str:
        """The ways out."""
        shares = f"split = {{ {self.other} = 0.9, {self.mixture.name} = 0.1 }}"
        if self.source.name == self.through.name and not self.source.split:
            way_out = f"give it {shares}"
        elif self.source.split or self.through.split:
            way_out = "give both the same split, with no counts"
        else:
            way_out = f"give both {shares}"
        return f"{way_out}, or say shared = true in [source.{self.source.name}]"


def leaks(
    sources: Mapping[str, SourceSpec], mixtures: Mapping[str, MixtureSpec], origins: Mapping[str, Origins]
) -> Iterator[Leak]:
    """Two mixtures may see records of one origin only through equal splits, or where a source says ``shared = true``.

    Split keys are inherited, so equal shares of two branches of one source never meet. ``origins``: of each source.
    """
    seen = _Seen()
    for mixture in mixtures.values():
        users = [sources[name] for name in mixture.sources if not sources[name].shared]
        for source in users:
            clash = seen.clash(source, origins[source.name])
            if clash:
                other, through = seen.user(source, clash)
                yield Leak(mixture=mixture, source=source, other=other, through=through)
        for source in users:
            seen.add(mixture.name, source, origins[source.name])


def spread(sources: Mapping[str, SourceSpec], base: Callable[[str], Origins]) -> dict[str, Origins]:
    """The origins of each source: of its inputs, or, through ``base``, of its own files and of nodes of other recipes.

    What comes of a source that says ``shared = true`` has none.
    """
    known: dict[str, Origins] = {}
    stack = list(sources)
    while stack:
        name = stack[-1]
        source = sources[name]
        missing = [i for i in source.inputs if i in sources and i not in known]
        if missing and name not in known:
            stack += missing
            continue
        stack.pop()
        if name in known:
            continue
        found: dict[str, int] = {}
        for origin in source.inputs or (name,):
            for kind, bits in (known[origin] if origin in known else base(origin)).items():
                found[kind] = found.get(kind, 0) | bits
        known[name] = {} if source.shared else found
    return known


def _parting(source: SourceSpec) -> _Parting:
    """Sources of equal partings give one record to the same split, so their different splits never meet.

    Shares go by the record's key alone. Counts take the lowest keys of the source's own records, so two sources that
    have other records (one filters more) part them differently, and only one and the same source is sure.
    """
    parting: set[tuple[str, Fraction | int | str]] = set(source.split.items())
    if any(isinstance(share, int) for share in source.split.values()):
        parting.add(("", source.name))
    return frozenset(parting)


@dataclass(slots=True)
class _Seen:
    """Origins (bits) that earlier mixtures see: through any split, through several, and through each."""

    any: int = 0
    several: int = 0
    by_parting: dict[tuple[_Parting, str], int] = field(default_factory=dict)
    users: list[tuple[str, SourceSpec, Origins]] = field(default_factory=list)

    def clash(self, source: SourceSpec, origins: Origins) -> Origins:
        """The origins of ``source`` that an earlier mixture sees through another split, or through none."""
        parting, found = _parting(source), {}
        for kind, bits in origins.items():
            same = self.by_parting.get((parting, kind), 0) if source.split else 0
            clash = bits & (self.several | (self.any & ~same))
            if clash:
                found[kind] = clash
        return found

    def user(self, source: SourceSpec, clash: Origins) -> tuple[str, SourceSpec]:
        """The first mixture, and its source, through which the origins ``clash`` are seen not as by ``source``."""
        own = _parting(source)
        return next(
            (mixture, through)
            for mixture, through, origins in self.users
            for there, bits in origins.items()
            for kind, wanted in clash.items()
            if bits & wanted and not (own and kind == there and _parting(through) == own)
        )

    def add(self, mixture: str, source: SourceSpec, origins: Origins) -> None:
        """Remember what ``mixture`` sees through ``source``."""
        parting = _parting(source)
        for kind, bits in origins.items():
            same = self.by_parting.get((parting, kind), 0)
            self.several |= bits & self.any & ~same
            self.any |= bits
            self.by_parting[parting, kind] = same | bits
        if origins:
            self.users.append((mixture, source, origins))
