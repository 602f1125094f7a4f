"""Suggestions: the known name that a mistyped one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 64
_MOST = 2000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, or None if none is close. Long names (no typing mistakes) have none.

    Of many known names only some are looked at, so that a hostile recipe costs no time.
    """
    if len(name) > _LONGEST:
        return None
    by_folded = {k.casefold(): k for k in sorted(sorted(known)[:_MOST], reverse=True)}
    found = difflib.get_close_matches(name.casefold(), by_folded, 1, 0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The hint for an unknown ``name``: the nearest of ``known``, else None."""
    found = nearest(name, known)
    return None if found is None else f"did you mean '{found}'?"
