"""Prefix: the derivation that a person means by the first digits of its digest."""

from __future__ import annotations

import os
import re

from dsbuild.digest import Digest
from dsbuild.errors import NotFoundError
from dsbuild.store.layout import Layout

_TEXT = re.compile(r"[0-9a-f]{1,64}")
_SHOWN = 5


def resolve(layout: Layout, text: str) -> Digest:
    """See ``Store.resolve``."""
    if not _TEXT.fullmatch(text):
        raise NotFoundError(
            f"hash {text!r}: not 1 to 64 hexadecimal digits (0-9, a-f)",
            kind="not-found",
            hint="'dsbuild list' shows what the store has",
        )
    if len(text) == 64:
        found = [Digest.parse(text)] if os.path.exists(layout.derivation(Digest.parse(text))) else []
    else:
        found = [digest for digest in layout.names("derivations", ".json", text) if digest.hex.startswith(text)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(
            f"hash {text}: no derivation in the store {layout.root} begins so",
            kind="not-found",
            hint="'dsbuild list' shows what the store has; --store names another one",
        )
    shown = ", ".join(digest.short for digest in found[:_SHOWN])
    raise NotFoundError(
        f"hash {text}: begins {len(found)} derivations ({shown}{', …' if len(found) > _SHOWN else ''})",
        kind="ambiguous",
        hint="give more digits",
    )
