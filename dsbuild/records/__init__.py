"""Records: rows on their way through handlers, as columns in memory.

A column of a number dtype is a numpy array (with int64 ``offsets`` if ragged); a column of ``text``, ``json`` or
``bytes`` is a list of Python values. ``MISSING`` stands for a field that a record does not have; it never reaches the
store.
"""

from dsbuild.records.columns import MISSING, Column, Missing, Records, concatenate, from_rows
from dsbuild.records.content import column_digest, content_digest, flatten, part_digest, unflatten

__all__ = [
    "MISSING",
    "Column",
    "Missing",
    "Records",
    "column_digest",
    "concatenate",
    "content_digest",
    "flatten",
    "from_rows",
    "part_digest",
    "unflatten",
]
