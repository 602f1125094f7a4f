"""Arguments: what a user wrote for a plug-in, held against what the plug-in takes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dsbuild.canon import Value
from dsbuild.interfaces import Argument

Problem = tuple[str | None, str, str | None]
"""(name of the argument if there is one, what is wrong, hint)."""

_SHOWN = {
    "text": "text",
    "integer": "an integer",
    "decimal": "a number",
    "boolean": "true or false",
    "names": "a list of texts",
    "mapping": "a table of texts",
}


def check_arguments(
    arguments: tuple[Argument, ...], given: Mapping[str, Value]
) -> tuple[dict[str, Value], list[Problem]]:
    """(the checked values of ``given``, all problems). Defaults are not filled in, values with problems left out."""
    known = {a.name: a for a in arguments}
    checked: dict[str, Value] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        if name not in known:
            problems.append((name, f"no argument '{name}'", _meant(name, [n for n in known if n not in given])))
            continue
        problem = _problem(known[name], value)
        if problem is None:
            checked[name] = Fraction(value) if known[name].type == "decimal" else value
        else:
            problems.append(problem)
    for argument in arguments:
        if argument.required and argument.name not in given:
            problems.append((None, f"needs the argument '{argument.name}'", argument.doc))
    return checked, problems


def _meant(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"it takes {', '.join(sorted(known))}" if known else "it takes no other"


def _problem(argument: Argument, value: Any) -> Problem | None:
    if not _fits(argument.type, value):
        return argument.name, f"'{argument.name}' is {_said(value)}, not {_SHOWN[argument.type]}", argument.doc
    if argument.choices and value not in argument.choices:
        near = difflib.get_close_matches(str(value), argument.choices, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(argument.choices)}"
        return argument.name, f"'{argument.name}' is {value!r}, which is no choice", hint
    return None


def _fits(type: str, value: Any) -> bool:
    match type:
        case "text":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "decimal":
            return isinstance(value, int | Fraction | Decimal) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "names":
            return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        case "mapping":
            return isinstance(value, Mapping) and all(isinstance(i, str) for pair in value.items() for i in pair)
        case "value":
            return True
    raise AssertionError(f"{type!r} is no type of arguments")


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Fraction | Decimal):
        return f"the number {value}"
    names: dict[Any, str] = {str: "text", list: "a list", tuple: "a list", dict: "a table"}
    shown = names.get(type(value), type(value).__name__)
    return f"{shown} {value!r:.40}" if isinstance(value, str) else shown
