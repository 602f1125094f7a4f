"""Names of fields as files have them, against what can name a column."""

from __future__ import annotations

from dsbuild.readers.faults import Fault, excerpt
from dsbuild.schema import check_name


def column_name(name: str) -> str:
    """``name`` if a user's column can have it. Raises ``Fault`` if not; names that begin with '@' are ours."""
    try:
        if not name.startswith("@"):
            return check_name(name)
    except ValueError:
        pass
    hint = (
        "names are letters, digits, '_', '.', '-', at most 128, no digit first; fields that nothing uses are left out"
    )
    raise Fault("a field name that can't name a column", detail=f"'{excerpt(name)}'", hint=hint)
