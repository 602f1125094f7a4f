"""Keep: the records for which an expression is true; the others are left out."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

import numpy as np

from dsbuild.canon import Value
from dsbuild.handlers import evaluate, expression
from dsbuild.interfaces import Argument, Effect, Facts, RecordError, Resources
from dsbuild.records import MISSING, Records


class Keep:
    """``where`` is an expression of ``handlers.expression``; hashed in its canonical form, so blanks don't matter."""

    name = "keep"
    version = 1
    arguments = (Argument(name="where", type="text", doc='an expression: "len(text) >= 200"', required=True),)

    def __init__(self, arguments: Mapping[str, Value], resources: Resources) -> None:
        tree = expression.parse(arguments["where"])
        self._text = arguments["where"]
        self._names = sorted(expression.names(tree))
        self._function = evaluate.compiled(tree)

    @staticmethod
    def resolve(arguments: Mapping[str, Value], facts: Facts) -> Mapping[str, Value]:
        """The canonical expression, and the Unicode class where upper and lower case make it matter."""
        try:
            tree = expression.parse(arguments["where"])
        except ValueError as error:
            raise ValueError(f"where: {error}") from None
        found: dict[str, Value] = {"where": expression.show(tree)}
        if any(isinstance(n, expression.Apply) and n.name in ("lower", "upper") for n in expression.walk(tree)):
            found["library"] = {"unicode": facts.libraries.get("unicode", unicodedata.unidata_version)}
        return found

    def effect(self) -> Effect:
        """Reads the columns that the expression names."""
        return Effect(needs=frozenset(self._names))

    def apply(self, records: Records) -> Records:
        """See ``Handler.apply``. Raises ``RecordError`` where the expression is neither true nor false."""
        columns = [records[n] if n in records.schema else None for n in self._names]
        kept = np.zeros(len(records), np.bool_)
        for i in range(len(records)):
            row = {n: MISSING if c is None else c[i] for n, c in zip(self._names, columns, strict=True)}
            try:
                found = self._function(row)
            except evaluate.EvaluationError as error:
                raise RecordError(i, f"keep where {self._text}: {error}") from None
            if found is not True and found is not False:
                hint = "compare it with something: len(text) >= 200"
                raise RecordError(i, f"keep where {self._text}: gave {found!r:.40}, not true or false", hint=hint)
            kept[i] = found
        return records if kept.all() else records.take(np.flatnonzero(kept))
