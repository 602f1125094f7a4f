"""Derivation: a node with every name replaced by a digest. Nothing else decides bytes.

Kinds and what their ``inputs`` are:

=============  ==========================================================================
source         ordered ids of files (``b3:…``)
handler        the derivation that it follows
concatenation  derivations, in order
records        the derivation whose records are stored; ``columns`` says which
split          a ``records`` derivation, by range of split keys or by counts
pack           a ``records`` or ``split`` derivation, its records put in examples
order          a ``records``, ``split`` or ``pack`` derivation, dealt to ideal readers
mixture        views (``records``, ``split``, ``pack``, ``order``), sorted by digest, with integer weights
dataset        mixture name -> ``mixture`` derivation
=============  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsbuild import canon
from dsbuild.digest import Digest, Domain, of_bytes

ON_ERROR = "@on_error"
"""The argument of a handler's derivation that says what becomes of records that it refuses."""

KINDS = ("source", "handler", "concatenation", "records", "split", "pack", "order", "mixture", "dataset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """``kind``, ``builder`` (name@version), ``arguments`` (those that differ from the default), ``inputs``."""

    kind: str
    builder: str
    inputs: Sequence[str] | Mapping[str, str]
    arguments: Mapping[str, canon.Value] = field(default_factory=dict)

    @property
    def canonical(self) -> bytes:
        """Exactly the bytes that are hashed."""
        return canon.encode(
            {
                "dsbuild": canon.VERSION,
                "kind": self.kind,
                "builder": self.builder,
                "arguments": self.arguments,
                "inputs": self.inputs,
            }
        )

    @property
    def digest(self) -> Digest:
        """The derivation digest."""
        return of_bytes(Domain.DERIVATION, self.canonical)

    @property
    def name(self) -> str:
        """The builder's name without its version."""
        return self.builder.rpartition("@")[0]

    @property
    def version(self) -> int:
        """The builder's version."""
        return int(self.builder.rpartition("@")[2])

    def references(self) -> Iterator[Digest]:
        """The derivations that it needs, in order; none for a source."""
        if self.kind != "source":
            for text in self.inputs.values() if isinstance(self.inputs, Mapping) else self.inputs:
                yield Digest.parse(text)


def parse(data: bytes) -> Derivation:
    """The derivation of canonical bytes (from a store: untrusted). Raises ``ValueError`` for anything else."""
    value = canon.decode(data)
    if not isinstance(value, dict) or set(value) != {"dsbuild", "kind", "builder", "arguments", "inputs"}:
        raise ValueError("these bytes are no derivation")
    kind, builder, arguments, inputs = value["kind"], value["builder"], value["arguments"], value["inputs"]
    if value["dsbuild"] != canon.VERSION or kind not in KINDS or not _is_builder(builder):
        raise ValueError(f"a derivation of kind {kind!r} by {builder!r} is not known to this release")
    if not isinstance(arguments, dict) or not _are_texts(inputs):
        raise ValueError("a derivation's arguments are a mapping and its inputs texts")
    found = Derivation(kind=kind, builder=builder, arguments=arguments, inputs=inputs)
    for _ in found.references():  # each must parse as a digest
        pass
    return found


def _is_builder(value: Any) -> bool:
    name, at, version = value.rpartition("@") if isinstance(value, str) else ("", "", "")
    return bool(name and at and version.isascii() and version.isdigit())


def _are_texts(value: Any) -> bool:
    items = list(value.values()) if isinstance(value, dict) else value
    return isinstance(items, list) and all(isinstance(item, str) for item in items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The derivations of one recipe, inputs before users; ``labels``: names for people; ``output``: its hash."""

    derivations: Mapping[Digest, Derivation]
    labels: Mapping[Digest, str]
    output: Digest

    def closure(self, digest: Digest) -> tuple[Digest, ...]:
        """``digest`` and all that it needs within the graph, inputs before users."""
        seen: dict[Digest, None] = {}
        stack = [digest] if digest in self.derivations else []
        while stack:
            at = stack[-1]
            missing = (
                [r for r in self.derivations[at].references() if r in self.derivations and r not in seen]
                if at not in seen
                else []
            )
            if missing:
                stack += reversed(missing)
            else:
                seen[stack.pop()] = None
        return tuple(seen)

    def label(self, digest: Digest) -> str:
        """A name for people, never for identity."""
        return self.labels.get(digest, digest.short)
