"""Expression: the small language of ``keep``, parsed into a tree of our own and printed in one canonical way.

Safe because nothing is evaluated by Python: its parser only gives the tree, every node that is not listed here is
refused, and there is no power, repetition, loop, attribute or call but those of ``FUNCTIONS``.
"""

from __future__ import annotations

import ast
import json
import keyword
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_TEXT = 4096
MAX_DEPTH = 64
MAX_BITS = 1024

FUNCTIONS: dict[str, tuple[int, int]] = {
    # name: least and most arguments
    "len": (1, 1),
    "lower": (1, 1),
    "upper": (1, 1),
    "strip": (1, 1),
    "startswith": (2, 2),
    "endswith": (2, 2),
    "contains": (2, 2),
    "min": (1, 16),
    "max": (1, 16),
    "abs": (1, 1),
    "has": (1, 1),
    "missing": (1, 1),
    "field": (1, 1),
}
METHODS = frozenset({"lower", "upper", "strip", "startswith", "endswith"})
"""May also be written ``text.lower()``; the canonical form is ``lower(text)``."""

CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None}

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


@dataclass(frozen=True, slots=True)
class Constant:
    """Text, a number, true, false or none."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """``of[key]`` with a constant text or integer."""

    of: Node
    key: str | int


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of ``FUNCTIONS``, or an operator: "and", "or", "not", "neg", "list", "+", "-", "*", "/", "//", "%"."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """``first op second op third …``, all true."""

    operators: tuple[str, ...]
    operands: tuple[Node, ...]


Node = Constant | Name | Item | Apply | Compare


def parse(text: str) -> Node:
    """The tree of an expression. Raises ``ValueError`` with the character (from 1) that is wrong."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"the expression has {len(text)} characters, more than {MAX_TEXT}")
    if not text.strip():
        raise ValueError("the expression is empty")
    wrapped = f"({text}\n)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(wrapped, mode="eval").body
    except SyntaxError as error:
        at = _character(wrapped, error.lineno or 1, error.offset or 1)
        raise ValueError(f"{error.msg} at character {min(max(at, 1), len(text) + 1)} of {text!r}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ValueError(f"the expression is nested too deeply or has a NUL: {text[:80]!r}") from None
    if tree.lineno == 1 and tree.col_offset == 0 and not isinstance(tree, ast.Tuple | ast.GeneratorExp):
        raise ValueError(f"unbalanced parentheses in {text!r}")
    return _Parser(wrapped, text).node(tree, 0)


def _character(wrapped: str, line: int, column: int) -> int:
    """The 1-based character of the user's text at 1-based ``line`` and ``column`` of the wrapped text."""
    return sum(len(part) + 1 for part in wrapped.split("\n")[: line - 1]) + column - 1


class _Parser:
    """Turns Python's tree into ours."""

    def __init__(self, wrapped: str, text: str) -> None:
        self.lines, self.wrapped, self.text = wrapped.split("\n"), wrapped, text

    def refuse(self, node: ast.AST, message: str) -> ValueError:
        line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        column = len(self.lines[line - 1].encode()[:offset].decode("utf-8", "ignore")) + 1
        return ValueError(f"{message} at character {max(_character(self.wrapped, line, column), 1)} of {self.text!r}")

    def node(self, node: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.refuse(node, f"nested deeper than {MAX_DEPTH}")
        deeper = depth + 1
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name(id=name):
                return Constant(CONSTANTS[name]) if name in CONSTANTS else Name(name)
            case ast.Subscript():
                return self.item(node, deeper)
            case ast.Call():
                return self.call(node, deeper)
            case ast.Compare():
                return self.compare(node, deeper)
            case ast.BoolOp():
                name = "and" if isinstance(node.op, ast.And) else "or"
                return Apply(name, tuple(self.node(n, deeper) for n in node.values))
            case ast.UnaryOp(op=ast.Not()):
                return Apply("not", (self.node(node.operand, deeper),))
            case ast.UnaryOp(op=ast.USub()):
                return self.negative(self.node(node.operand, deeper))
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                sides = (self.node(node.left, deeper), self.node(node.right, deeper))
                return Apply(_ARITHMETIC[type(node.op)], sides)
            case ast.List() | ast.Tuple():
                return Apply("list", tuple(self.node(n, deeper) for n in node.elts))
        raise self.refuse(node, f"{_plain(node)} is not part of the language")

    def constant(self, node: ast.Constant) -> Constant:
        value = node.value
        if isinstance(value, str):
            if any("\ud800" <= c <= "\udfff" for c in value):
                raise self.refuse(node, "text with a lone surrogate")
        elif isinstance(value, int):
            if value.bit_length() > MAX_BITS:
                raise self.refuse(node, f"a number of more than {MAX_BITS} bits")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise self.refuse(node, "a number that is too large")
        elif value is not None:
            raise self.refuse(node, f"a constant of type {type(value).__name__}")
        return Constant(value)

    def negative(self, inner: Node) -> Node:
        if isinstance(inner, Constant) and isinstance(inner.value, int | float) and not isinstance(inner.value, bool):
            return Constant(-inner.value)
        return Apply("neg", (inner,))

    def item(self, node: ast.Subscript, depth: int) -> Item:
        key = self.node(node.slice, depth)
        if not isinstance(key, Constant) or isinstance(key.value, bool) or not isinstance(key.value, str | int):
            raise self.refuse(node.slice, "the key in [ ] must be a text or an integer")
        return Item(self.node(node.value, depth), key.value)

    def call(self, node: ast.Call, depth: int) -> Node:
        arguments = list(node.args)
        if node.keywords or any(isinstance(a, ast.Starred) for a in arguments):
            raise self.refuse(node, "functions take plain arguments only")
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            name, arguments = node.func.attr, [node.func.value, *arguments]
        elif isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            name = node.func.id
        else:
            said = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "that")
            raise self.refuse(node, f"no function '{said}'; there are {', '.join(sorted(FUNCTIONS))};")
        least, most = FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            raise self.refuse(node, f"{name} takes {least if least == most else f'{least} to {most}'} arguments")
        made = tuple(self.node(a, depth) for a in arguments)
        if name == "field":
            if (
                not isinstance(made[0], Constant)
                or not isinstance(made[0].value, str)
                or made[0].value[:1] in ("", "@")
            ):
                raise self.refuse(node, "field takes the name of a column, as a text")
            return Name(made[0].value)
        if name in ("has", "missing"):
            if not _is_path(made[0]):
                raise self.refuse(node, f"{name} takes a column, or a column with [ ]")
            has = Apply("has", made)
            return has if name == "has" else Apply("not", (has,))
        return Apply(name, made)

    def compare(self, node: ast.Compare, depth: int) -> Node:
        operands = tuple(self.node(n, depth) for n in (node.left, *node.comparators))
        operators = []
        for operator, right in zip(node.ops, operands[1:], strict=True):
            if isinstance(operator, ast.Is | ast.IsNot):
                if right != Constant(None):
                    raise self.refuse(node, "'is' is for none only; use == or !=")
                operators.append("==" if isinstance(operator, ast.Is) else "!=")
            else:
                operators.append(_COMPARISONS[type(operator)])
        return Compare(tuple(operators), operands)


def _is_path(node: Node) -> bool:
    while isinstance(node, Item):
        node = node.of
    return isinstance(node, Name)


def _plain(node: ast.AST) -> str:
    if isinstance(node, ast.BinOp):
        return {"Pow": "power (**)", "MatMult": "@"}.get(
            type(node.op).__name__, f"the operator {type(node.op).__name__}"
        )
    if isinstance(node, ast.Attribute):
        return f"the attribute '.{node.attr}'"
    return f"a Python {type(node).__name__}"


def walk(node: Node) -> Iterator[Node]:
    """``node`` and all below it."""
    yield node
    below: tuple[Node, ...] = ()
    if isinstance(node, Item):
        below = (node.of,)
    elif isinstance(node, Apply):
        below = node.arguments
    elif isinstance(node, Compare):
        below = node.operands
    for inner in below:
        yield from walk(inner)


def names(node: Node) -> frozenset[str]:
    """The columns that an expression uses."""
    return frozenset(n.name for n in walk(node) if isinstance(n, Name))


def show(node: Node) -> str:
    """The canonical text: one for a tree, on every Python; ``parse`` of it gives the tree again."""
    match node:
        case Constant(value):
            return _show_constant(value)
        case Name(name):
            plain = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in CONSTANTS
            return name if plain else f"field({_show_constant(name)})"
        case Item(of, key):
            return f"{_inner(of)}[{_show_constant(key)}]"
        case Compare(operators, operands):
            rest = "".join(f" {o} {_inner(n)}" for o, n in zip(operators, operands[1:], strict=True))
            return _inner(operands[0]) + rest
        case Apply("list", arguments):
            return f"[{', '.join(show(a) for a in arguments)}]"
        case Apply("not", arguments):
            return f"not {_inner(arguments[0])}"
        case Apply("neg", arguments):
            return f"-{_inner(arguments[0])}"
        case Apply(name, arguments) if name in FUNCTIONS:
            return f"{name}({', '.join(show(a) for a in arguments)})"
        case Apply(name, arguments):
            return f" {name} ".join(_inner(a) for a in arguments)


def _inner(node: Node) -> str:
    simple = isinstance(node, Name | Item) or (
        isinstance(node, Apply) and (node.name in FUNCTIONS or node.name == "list")
    )
    if isinstance(node, Constant):
        simple = not isinstance(node.value, int | float) or isinstance(node.value, bool) or str(node.value)[0] != "-"
    return show(node) if simple else f"({show(node)})"


def _show_constant(value: Any) -> str:
    for name, constant in CONSTANTS.items():
        if value is constant:
            return name
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
