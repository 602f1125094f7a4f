"""User Python: a handler's module and every first-party module that it imports, normalised and digested.

Nothing is executed here. First-party means under the recipe's directory; modules are named by their path from there
(``handlers.clean``; a package's own text is ``handlers.__init__``), so an identity holds in any place. Absolute imports
are looked up beside the handler's file first, then in the recipe's directory, then in the standard library, then in
what ``requires`` declares.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from dsbuild.digest import Digest, Domain, of_value
from dsbuild.errors import RecipeError, Where
from dsbuild.recipe.normalise import Normal, SourceError, decode, normalise

INIT = "__init__"
_PART = re.compile(r"[\w-]+")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UNICODE = frozenset(
    {"unicodedata", "re", "regex", "lower", "upper", "casefold", "title", "capitalize", "swapcase"}
    | {"isalpha", "isalnum", "isdigit", "isdecimal", "isnumeric", "islower", "isupper", "istitle"}
    | {"isprintable", "isidentifier"}
)
"""Names whose results depend on the Unicode database of the Python that runs them (blanks are stable since 6.3)."""

_INDEPENDENT = frozenset(
    {"__future__", "abc", "array", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses"}
    | {"decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers"}
    | {"operator", "random", "statistics", "struct", "typing", "zlib"}
)
"""Modules of the standard library whose results do not depend on the Unicode database."""

_REPR = re.compile(r"%[ra]|![ra]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCode:
    """A closure: ``entry`` is ``module:function``; ``modules``: normalised text by module name.

    ``lines``: per module, for each line of its text the line of the file (for messages, never hashed); ``paths``: the
    files, by module; ``unicode``: whether it mentions what depends on the Unicode database; ``accepts``: the names of
    arguments that the function takes after the record (None = any), ``demands``: those without a default.
    """

    entry: str
    modules: Mapping[str, str]
    lines: Mapping[str, tuple[int, ...]]
    paths: Mapping[str, Path]
    unicode: bool
    accepts: frozenset[str] | None
    demands: frozenset[str]

    @property
    def digest(self) -> Digest:
        """Of the module names and their normalised texts, alone."""
        return of_value(Domain.CODE, dict(self.modules))


def load_code(directory: Path, file: str, function: str, requires: tuple[str, ...] = ()) -> UserCode:
    """The closure of ``function`` of ``file`` (relative to the recipe's ``directory``).

    ``requires``: names of packages whose modules may be imported. Raises ``RecipeError``: ``no-such-file``,
    ``not-a-file``, or ``bad-python`` with file and line.
    """
    module = _entry_module(file)
    closure = _Closure(root=directory.resolve(), home=module.rpartition(".")[0], requires=requires)
    path = closure.root / file
    if not path.exists():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], 1)
        hint = f"did you mean '{PurePosixPath(file).with_name(near[0])}'?" if near else "paths start from the recipe"
        raise RecipeError(f"{file}: no such file", kind="no-such-file", hint=hint)
    closure.add(module, path)
    normal = closure.normals[module]
    accepts, demands = _signature(normal.tree, function, file)
    texts = {name: n.text for name, n in closure.normals.items() if n.text or not name.endswith(INIT)}
    return UserCode(
        entry=f"{module}:{function}",
        modules=texts,
        lines={name: closure.normals[name].lines for name in texts},
        paths={name: closure.paths[name] for name in texts},
        unicode=any(_mentions_unicode(n.tree) for n in closure.normals.values()),
        accepts=accepts,
        demands=demands,
    )


def _entry_module(file: str) -> str:
    path = PurePosixPath(file)
    parts = path.with_suffix("").parts
    if path.is_absolute() or ".." in parts:
        hint = "user Python lies in the recipe's directory or below, so that its closure can be named"
        raise RecipeError(f"{file}: outside of the recipe's directory", kind="bad-python", hint=hint)
    for part in parts:
        if not _PART.fullmatch(part):
            hint = "use letters, digits, '_' and '-' in names of Python files and their directories"
            raise RecipeError(f"{file}: {part!r} can't name a module", kind="bad-python", hint=hint)
    return ".".join(parts)


@dataclass(slots=True)
class _Closure:
    """Modules found so far. ``home``: the package of the handler's file, looked up first by absolute imports."""

    root: Path
    home: str
    requires: tuple[str, ...]
    normals: dict[str, Normal] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)

    def add(self, module: str, path: Path) -> None:
        """Adds ``module``, the packages that it lies in, and all that it imports."""
        if module in self.normals:
            return
        self._parents(module)
        shown = path.relative_to(self.root).as_posix()
        try:
            normal = normalise(decode(_read(path, self.root, shown)))
        except SourceError as error:
            raise _bad(f"{shown}: {error.message}", path, error.line) from None
        self.normals[module], self.paths[module] = normal, path
        package = module.rpartition(".")[0]
        for wanted in _imports(normal.tree):
            self._import(wanted, package, path, shown)

    def _parents(self, module: str) -> None:
        parts = module.split(".")[:-1]
        for n in range(1, len(parts) + 1):
            init = self.root.joinpath(*parts[:n], f"{INIT}.py")
            name = ".".join([*parts[:n], INIT])
            if name != module and init.is_file():
                self.add(name, init)

    def _import(self, wanted: _Import, package: str, path: Path, shown: str) -> None:
        if wanted.level:
            parts = package.split(".") if package else []
            if wanted.level > len(parts):
                hint = "modules beside the recipe are imported by name: import helper"
                said = "." * wanted.level + wanted.module
                raise _bad(f"{shown}: relative import '{said}' leaves the package", path, wanted.line, hint)
            base = ".".join([*parts[: len(parts) - wanted.level + 1], *filter(None, [wanted.module])])
            if not self._add_found(base, wanted.names):
                raise _bad(f"{shown}: no module '{base}' in the recipe's directory", path, wanted.line)
            return
        for home in dict.fromkeys((self.home, "")):
            prefix = f"{home}." if home else ""
            if self._add_found(prefix + wanted.module, wanted.names):
                if wanted.module.partition(".")[0] in sys.stdlib_module_names:
                    hint = "rename the file"
                    message = f"'{wanted.module}' is in the recipe's directory and in the standard library"
                    raise _bad(f"{shown}: {message}", path, wanted.line, hint)
                return
        top = wanted.module.partition(".")[0]
        if top not in sys.stdlib_module_names and not _declared(top, self.requires):
            hint = f'add requires = ["{_package_of(top)}"] to the handler, or put {top}.py in the recipe\'s directory'
            message = f"{shown}: import of '{wanted.module}', which is not standard library, not beside the recipe and"
            raise _bad(f"{message} not in requires", path, wanted.line, hint)

    def _add_found(self, module: str, names: tuple[str, ...]) -> bool:
        """Adds first-party ``module`` and those of ``names`` that are its submodules; False if there is none such."""
        parts = module.split(".")
        base = self.root.joinpath(*parts)
        init, plain = base / f"{INIT}.py", base.with_name(base.name + ".py")
        found = False
        if init.is_file():
            self.add(f"{module}.{INIT}", init)
            found = True
        elif plain.is_file():
            self.add(module, plain)
            return True
        if base.is_dir():
            for name in names:
                found |= self._add_found(f"{module}.{name}", ())
        return found


def _read(path: Path, root: Path, shown: str) -> bytes:
    real = path.resolve()
    if not real.is_relative_to(root):
        raise _bad(f"{shown}: a link that leads out of the recipe's directory", path, None, f"copy {real.name} there")
    if not real.is_file():
        raise RecipeError(f"{shown}: not a file", kind="not-a-file", where=Where(path=str(path)))
    try:
        return real.read_bytes()
    except OSError as error:
        raise RecipeError(f"{shown}: {error.strerror}", kind="unreadable", where=Where(path=str(path))) from None


def _bad(message: str, path: Path, line: int | None, hint: str | None = None) -> RecipeError:
    return RecipeError(message, kind="bad-python", where=Where(path=str(path), line=line), hint=hint)


@dataclass(frozen=True, slots=True)
class _Import:
    module: str
    names: tuple[str, ...]
    level: int
    line: int


def _imports(tree: ast.Module) -> Iterator[_Import]:
    """Every import of a module, wherever it stands; ``import_module`` and ``__import__`` of a literal count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _Import(alias.name, (), 0, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield _Import(node.module or "", names, node.level, node.lineno)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            name = node.args[0].value
            if called in ("import_module", "__import__") and isinstance(name, str) and name and name[0] != ".":
                yield _Import(name, (), 0, node.lineno)


def _declared(top: str, requires: tuple[str, ...]) -> bool:
    wanted = {_plain(name) for name in requires}
    return _plain(top) in wanted or any(_plain(d) in wanted for d in _distributions(top))


def _package_of(top: str) -> str:
    return next(iter(_distributions(top)), top)


def _distributions(top: str) -> list[str]:
    import importlib.metadata

    return sorted(set(importlib.metadata.packages_distributions().get(top, [])))


def _plain(name: str) -> str:
    found = _DISTRIBUTION.match(name)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else name


def _mentions_unicode(tree: ast.Module) -> bool:
    """Whether results may depend on the Unicode database: what is not known to be independent of it counts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _UNICODE:
            return True
        if isinstance(node, ast.Name) and node.id in ("repr", "ascii", "getattr", "format"):
            return True
        if isinstance(node, ast.FormattedValue) and node.conversion != -1:
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _REPR.search(node.value):
            return True
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            modules = [node.module]
        if any(m.partition(".")[0] in sys.stdlib_module_names - _INDEPENDENT for m in modules):
            return True
    return False


def _signature(tree: ast.Module, function: str, file: str) -> tuple[frozenset[str] | None, frozenset[str]]:
    """(accepted arguments or None for any, those without a default) of a top-level ``function``."""
    bound = _bound(tree)
    if function not in bound:
        near = difflib.get_close_matches(function, [n for n in bound if not n.startswith("_")], 1)
        hint = f"did you mean '{near[0]}'?" if near else f"def {function}(record): … at the top of the file"
        raise RecipeError(f"{file}: no function '{function}'", kind="bad-python", hint=hint)
    node = bound[function]
    if isinstance(node, ast.AsyncFunctionDef):
        raise RecipeError(f"{file}: '{function}' is async", kind="bad-python", hint=f"def {function}(record): …")
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return None, frozenset()
    spec = node.args
    plain = [*spec.posonlyargs, *spec.args]
    if not plain and spec.vararg is None:
        hint = f"def {function}(record): …"
        raise RecipeError(f"{file}: '{function}' takes no record", kind="bad-python", hint=hint)
    optional = {a.arg for a in plain[len(plain) - len(spec.defaults) :]} if spec.defaults else set()
    optional |= {a.arg for a, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default is not None}
    names = {a.arg for a in [*plain[1:], *spec.kwonlyargs]}
    return (None if spec.kwarg else frozenset(names)), frozenset(names - optional)


def _bound(tree: ast.Module) -> dict[str, ast.AST]:
    """Names that top-level statements bind, with the last statement that does; ``if`` and ``try`` are looked into."""
    found: dict[str, ast.AST] = {}
    todo: list[ast.stmt] = list(reversed(tree.body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update({(a.asname or a.name).partition(".")[0]: node for a in node.names})
        else:
            children = ast.iter_child_nodes(node)
            names = (n for child in children for n in ast.walk(child) if isinstance(n, ast.Name))
            found.update({n.id: node for n in names if isinstance(n.ctx, ast.Store)})
            if isinstance(node, ast.If | ast.Try | ast.With):
                inner = [s for s in ast.walk(node) if isinstance(s, ast.stmt) and s is not node]
                found.update({s.name: s for s in inner if isinstance(s, ast.FunctionDef | ast.ClassDef)})
                todo.extend(s for s in inner if isinstance(s, ast.Import | ast.ImportFrom))
    return found
