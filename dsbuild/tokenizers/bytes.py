"""Bytes: the built-in tokenizer that needs no file: each byte of UTF-8 is a token.

Ids 0-255 are bytes, 256 is ``<eos>``, 257 ``<bos>``, 258 ``<pad>``. No text becomes one of the three, so a document
can't forge a boundary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dsbuild.digest import Digest, Domain, of_value
from dsbuild.interfaces import RecordError

SPECIAL = {"<eos>": 256, "<bos>": 257, "<pad>": 258}


class Bytes:
    """See ``dsbuild.interfaces.Tokenizer``."""

    size = 256 + len(SPECIAL)

    @property
    def fingerprint(self) -> Digest:
        """Digest of its name and version."""
        return of_value(Domain.TOKENIZER, {"bytes": 1})

    def encode(self, texts: Sequence[str], *, special: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(uint16 values, int64 offsets). ``special`` changes nothing: the three tokens have no text."""
        pieces = []
        for row, text in enumerate(texts):
            try:
                pieces.append(text.encode("utf-8"))
            except UnicodeEncodeError as error:
                raise RecordError(row, f"text with a lone surrogate at character {error.start}") from None
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(p) for p in pieces], out=offsets[1:])
        return np.frombuffer(b"".join(pieces), np.uint8).astype(np.uint16), offsets

    def token(self, text: str) -> int | None:
        """The id of ``<eos>``, ``<bos>``, ``<pad>``, or of a text of one byte."""
        if text in SPECIAL:
            return SPECIAL[text]
        data = text.encode("utf-8", "replace")
        return data[0] if len(data) == 1 else None

    def decode(self, ids: Iterable[int]) -> str:
        """Text, with U+FFFD for bytes that are no UTF-8, and the names of the three tokens."""
        names = {number: name for name, number in SPECIAL.items()}
        found = b"".join(bytes([i]) if i < 256 else names[i].encode() for i in map(int, ids))
        return found.decode("utf-8", "replace")
