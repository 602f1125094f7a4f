"""Namespace: runs the normalised text of user Python, cut off from every other recipe's.

Each namespace has modules of its own: user code gets a ``__builtins__`` with an ``__import__`` that finds first-party
names in the closure and nowhere else, also when a function imports while it runs, so neither ``sys.path`` nor another
recipe's module of the same name can be seen. Names that the closure's text doesn't import are refused (kind
``impure``), because they would not be in the hash. It is a guard against mistakes, not a sandbox: a recipe's Python is
code that its user chose to run, and this module is the one place that executes it.
"""

from __future__ import annotations

import ast
import builtins
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any

from dsbuild.digest import Domain, of_value
from dsbuild.errors import BuildError

INIT = "__init__"


def file_of(module: str) -> str:
    """The file of a first-party module, relative to the recipe: "handlers.clean" is handlers/clean.py."""
    return module.replace(".", "/") + ".py"


class Namespace:
    """The modules of one closure, loaded on use. ``modules``: normalised text by name; ``home``: see ``recipe.code``.

    They are in ``sys.modules`` under a prefix made of the closure's digest (dataclasses and typing look there); the
    namespace itself uses only its own table, so a second namespace of the same closure shares no state with it.
    """

    def __init__(self, modules: Mapping[str, str], home: str) -> None:
        self._texts = dict(modules)
        self._home = home
        self._lock = threading.RLock()
        self._loaded: dict[str, types.ModuleType] = {}
        identity = of_value(Domain.CODE, {"home": home, "modules": self._texts})
        self._prefix = f"dsbuild_user_{identity.short}"
        self._packages = {".".join(n.split(".")[:k]) for n in modules for k in range(1, n.count(".") + 1)}
        self._trees = {name: ast.parse(text, file_of(name)) for name, text in self._texts.items()}
        self._declared = {top for tree in self._trees.values() for top in _imported(tree)}
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self, name: str) -> types.ModuleType:
        """The first-party module ``name``, executed once, after the packages that it lies in."""
        with self._lock:
            if name in self._loaded:
                return self._loaded[name]
            parent, _, last = name.rpartition(".")
            above = self.load(parent) if parent else None
            if name in self._loaded:
                return self._loaded[name]
            module = self._new(name)
            self._loaded[name] = module
            sys.modules[module.__name__] = module
            key = f"{name}.{INIT}" if name in self._packages else name
            try:
                if key in self._texts:
                    self._execute(key, module)
            except BaseException:
                del self._loaded[name]
                sys.modules.pop(module.__name__, None)
                raise
            if above is not None:
                setattr(above, last, module)
            return module

    def _new(self, name: str) -> types.ModuleType:
        module = types.ModuleType(f"{self._prefix}.{name}")
        package = name in self._packages
        module.__package__ = module.__name__ if package else module.__name__.rpartition(".")[0]
        module.__file__ = file_of(f"{name}.{INIT}" if package else name)
        if package:
            module.__path__ = []
        vars(module)["__builtins__"] = self._builtins
        return module

    def _execute(self, key: str, module: types.ModuleType) -> None:
        code = compile(self._trees[key], file_of(key), "exec", dont_inherit=True, optimize=0)
        exec(code, vars(module))  # noqa: S102 - the one place for user Python

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        """What ``import`` statements of user Python call (see ``builtins.__import__``)."""
        if level:
            package = str((globals or {}).get("__package__") or "")
            full = self._relative(name, package, level)
            return self._first_party(full, full, fromlist)
        for home in dict.fromkeys((self._home, "")):
            full = f"{home}.{name}" if home else name
            if self._has(full):
                top = f"{home}.{name.partition('.')[0]}" if home else name.partition(".")[0]
                return self._first_party(full, top, fromlist)
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in self._declared:
            _refuse(name)
        module = builtins.__import__(name, globals, locals, fromlist or (), 0)
        return self._facade(module) if module.__name__ == "importlib" else module

    def _has(self, name: str) -> bool:
        return name in self._texts or name in self._packages

    def _relative(self, name: str, package: str, level: int) -> str:
        parts = package.split(".")[1:]
        if not package.startswith(self._prefix) or level > len(parts):
            raise ImportError(f"relative import '{'.' * level}{name}' leaves the package")
        return ".".join([*parts[: len(parts) - level + 1], *filter(None, [name])])

    def _first_party(self, full: str, top: str, fromlist: Sequence[str] | None) -> types.ModuleType:
        if not self._has(full):
            _refuse(full)
        module = self.load(full)
        if not fromlist:
            return self.load(top)
        wanted = list(vars(module).get("__all__", ())) if "*" in fromlist else fromlist
        for name in wanted:
            if not hasattr(module, name) and self._has(f"{full}.{name}"):
                self.load(f"{full}.{name}")
        return module

    def _facade(self, real: types.ModuleType) -> types.ModuleType:
        """``importlib`` with an ``import_module`` that knows the closure and refuses the rest."""
        module = types.ModuleType(real.__name__, real.__doc__)
        vars(module).update(vars(real))
        vars(module)["import_module"] = self._import_module
        return module

    def _import_module(self, name: str, package: str | None = None) -> types.ModuleType:
        level = len(name) - len(name.lstrip("."))
        found = self._import(name[level:], {"__package__": package}, None, ("*",) if level else (), level)
        for part in name.split(".")[1:] if not level else ():
            found = getattr(found, part)
        return found


def _imported(tree: ast.Module) -> set[str]:
    """The top-level names of absolute imports in a module; ``load_code`` has checked that they are declared."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.args[0].value
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if called in ("import_module", "__import__") and isinstance(name, str):
                found.add(name.partition(".")[0])
    return found


def _refuse(name: str) -> None:
    raise BuildError(
        f"user Python imported '{name}', which its hash doesn't cover",
        kind="impure",
        hint=f"write 'import {name}' in the handler's file, so that the import is found and hashed",
    )
