"""Digests: 32 bytes of BLAKE3 that name a thing, in a domain of their own per kind of thing.

A domain is a BLAKE3 derive-key context, so equal bytes in two domains have different digests. File content alone is
plain BLAKE3, so that people can check it with ``b3sum``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from blake3 import blake3

from dsbuild import canon

Buffer = bytes | bytearray | memoryview

_TEXT = re.compile(r"[0-9a-f]{64}")


class Domain(Enum):
    """The kinds of things that have digests. A context never changes; a new meaning is a new context."""

    FILE = None
    DERIVATION = "dsbuild 1 derivation"
    ACTION = "dsbuild 1 action"
    INPUT = "dsbuild 1 part input"
    COLUMN = "dsbuild 1 column"
    PART = "dsbuild 1 part content"
    NODE = "dsbuild 1 node content"
    CUTS = "dsbuild 1 cut table"
    CODE = "dsbuild 1 user code"
    TOKENIZER = "dsbuild 1 tokenizer"
    KEY = "dsbuild 1 permutation key"
    SPLIT = "dsbuild 1 split key"
    ENCODING = "dsbuild 1 object encoding"


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """32 bytes; its text is 64 lower-case hexadecimal digits."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise ValueError(f"a digest has 32 bytes, not {len(self.raw)}")

    @property
    def hex(self) -> str:
        """The digest as text."""
        return self.raw.hex()

    @property
    def short(self) -> str:
        """The first 12 digits: for people's eyes, never for identity."""
        return self.raw.hex()[:12]

    def __str__(self) -> str:
        return self.hex

    @classmethod
    def parse(cls, text: str) -> Digest:
        """The digest of 64 lower-case hexadecimal digits. Raises ``ValueError`` for anything else."""
        if not _TEXT.fullmatch(text):
            raise ValueError(f"{text!r} is not 64 lower-case hexadecimal digits")
        return cls(bytes.fromhex(text))


def hasher(domain: Domain) -> blake3:
    """A fresh BLAKE3 state of ``domain``; feed it with ``update`` and end with ``digest()``."""
    return blake3() if domain.value is None else blake3(derive_key_context=domain.value)


def of_bytes(domain: Domain, data: Buffer) -> Digest:
    """The digest of ``data`` in ``domain``."""
    state = hasher(domain)
    state.update(data)
    return Digest(state.digest())


def of_value(domain: Domain, value: canon.Value) -> Digest:
    """The digest of the canonical bytes of ``value`` in ``domain``."""
    return of_bytes(domain, canon.encode(value))
