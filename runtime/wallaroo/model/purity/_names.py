"""Resolves the names in a function's source, if their meaning can never change.

A name can be resolved if its module binds it exactly once, at the top level, and nothing in that
module or in others of its directory could rebind it or modify the object. Constants are evaluated
from their source, which excludes constants such as a process ID or a start time.
"""

from __future__ import annotations

import ast
import builtins
import collections
import datetime
import functools
import operator
import os
import re
import struct
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from wallaroo.model.purity._source import Doubt, Source
from wallaroo.model.purity._tables import CALLABLES, CONSTANTS, MODULES, SCALAR

_PLAIN = frozenset({str, bytes, int, float, complex, bool, type(None), type(Ellipsis)})
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}


def plain(value: Any) -> bool:
    """Whether *value* is immutable."""
    if type(value) in _PLAIN:
        return True
    if type(value) in {tuple, frozenset}:
        return all(map(plain, value))
    fixed = (datetime.timedelta, datetime.date, datetime.datetime)
    if type(value) in fixed or type(value) is re.RegexFlag:
        return getattr(value, "tzinfo", None) is None
    return value is NotImplemented or (type(value) is datetime.timezone and value is datetime.UTC)


def same(one: Any, other: Any) -> bool:  # noqa: PLR0911
    """Whether two constants are equal in value and type, recursively."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, struct.Struct):
        return bool(one.format == other.format)
    if isinstance(one, functools.partial):
        return (
            one.func is other.func
            and one.keywords == other.keywords == {}
            and (len(one.args) == len(other.args) and all(map(same, one.args, other.args)))
        )
    if isinstance(one, types.BuiltinMethodType):
        return one.__name__ == other.__name__ and same(one.__self__, other.__self__)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, frozenset):
        return one == other and set(map(repr, one)) == set(map(repr, other))
    return bool(one == other) and repr(one) == repr(other)


@dataclass(frozen=True)
class Scope:
    """The names and the source of a module."""

    names: Mapping[str, Any]
    source: Source
    file: str


class Names:
    """Looks up names in modules.

    Attributes:
        same_everywhere: Whether constants must have the same value in every process.
    """

    def __init__(self) -> None:
        self.same_everywhere = True
        self._sources: dict[str, Source] = {}
        self._patched: set[int] = set()
        self._directories: set[str] = set()

    def scope(self, names: Mapping[str, Any], path: str | None = None) -> Scope:
        """Return the scope of a module with *names*, whose source must be *path* if given."""
        file = names.get("__file__")
        if not isinstance(file, str) or not file.endswith(".py"):
            raise Doubt(file)
        if path is not None and path != file and Path(path).resolve() != Path(file).resolve():
            raise Doubt(path)
        return Scope(names, self._source(file), file)

    def _source(self, file: str) -> Source:
        if file not in self._sources:
            self._sources[file] = Source.of(file)
        return self._sources[file]

    def _scan_neighbours(self, file: str) -> None:
        """Record what the modules in the directory of *file* modify in imported objects."""
        directory = os.path.dirname(file)  # noqa: PTH120 - for all modules: pathlib is slow
        package = str(Path(__file__).parent)
        if directory in self._directories or directory == package:
            return
        self._directories.add(directory)
        for module in list(sys.modules.values()):
            if not isinstance(module, types.ModuleType):
                continue
            other = vars(module).get("__file__")  # getattr could trigger lazy imports
            if (
                isinstance(other, str)
                and other.endswith(".py")
                and os.path.dirname(other) == directory  # noqa: PTH120
            ):
                source = self._source(other)
                if source.rewrites:
                    raise Doubt(other)
                patched = [vars(module).get(name) for name in source.patched]
                self._patched |= {
                    id(it) for it in patched if isinstance(it, (types.ModuleType, type))
                }

    def lookup(self, scope: Scope, name: str) -> Any:
        """Return the object to which the global or builtin *name* refers.

        Raises:
            Doubt: That may change.
        """
        self._scan_neighbours(scope.file)
        bound = scope.source.bound
        if scope.source.rewrites or name in scope.source.patched:
            raise Doubt(name)
        if name not in scope.names:
            if name in bound:
                raise Doubt(name)
            obj = getattr(builtins, name)
            its = scope.names.get("__builtins__", builtins)
            if (its if isinstance(its, dict) else vars(its)).get(name) is not obj:
                raise Doubt(name)
            return obj
        obj, node = scope.names[name], bound.get(name)
        if node is None or id(obj) in self._patched:
            raise Doubt(name)
        if isinstance(node, ast.ImportFrom):
            self._check_import(scope, name, node, obj)
        elif isinstance(node, ast.expr):
            self.check_constant(scope, node, obj)
        elif isinstance(node, ast.Import) and not isinstance(obj, types.ModuleType):
            raise Doubt(name)
        return obj

    def _check_import(self, scope: Scope, name: str, node: ast.ImportFrom, obj: Any) -> None:
        """Check that *name*, imported by *node*, permanently refers to *obj*."""
        package = str(scope.names.get("__package__") or "").split(".")
        base = package[: len(package) - node.level + 1] if node.level else []
        module = sys.modules[".".join([*base, *([node.module] if node.module else [])])]
        original = next(a.name for a in node.names if (a.asname or a.name) == name)
        if isinstance(obj, types.ModuleType):
            return
        if self.member(module, original) is not obj:
            raise Doubt(name)

    def check_constant(self, scope: Scope, node: ast.expr, obj: Any) -> None:
        """Check that *obj* is the value of *node*.

        Raises:
            Doubt: It is not, or may not be in another process.
        """
        if not self.same_everywhere and plain(obj):
            return
        if isinstance(obj, type) and isinstance(node, ast.Call):
            if self.evaluate(scope, node.func) is not collections.namedtuple:
                raise Doubt(node)
            for part in [*node.args, *(k.value for k in node.keywords)]:
                _literal(part)
            return
        if not same(self.evaluate(scope, node), obj):
            raise Doubt(node)

    def member(self, module: types.ModuleType, name: str) -> Any:
        """Return the permanent value of *name* in *module*."""
        if id(module) in self._patched:
            raise Doubt(name)
        if module in MODULES:
            obj = vars(module)[name]
            if (plain(obj) and module not in CONSTANTS) or id(obj) in self._patched:
                raise Doubt(name)
            return obj
        if isinstance(vars(module).get(name), types.ModuleType):
            return vars(module)[name]
        if vars(module).get("__file__") is None or module.__name__ in sys.stdlib_module_names:
            raise Doubt(name)
        return self.lookup(self.scope(vars(module)), name)

    def evaluate(self, scope: Scope, node: ast.expr) -> Any:  # noqa: PLR0911
        """Evaluate *node*, a constant expression or a dotted name.

        Raises:
            Doubt: It is not constant.
        """
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.lookup(scope, node.id)
            case ast.Attribute():
                return self.attribute(self.evaluate(scope, node.value), node.attr)
            case ast.Tuple():
                return tuple(self.evaluate(scope, item) for item in node.elts)
            case ast.UnaryOp(op=ast.USub()):
                return -self.evaluate(scope, node.operand)
            case ast.BinOp():
                sides = self.evaluate(scope, node.left), self.evaluate(scope, node.right)
                if not all(map(plain, sides)):
                    raise Doubt(node)
                return _OPERATORS[type(node.op)](*sides)
            case ast.Call(keywords=[]):
                return self._call(scope, node)
        raise Doubt(node)

    def attribute(self, base: Any, name: str) -> Any:
        """Return the permanent attribute *name* of *base*.

        Raises:
            Doubt: It may change.
        """
        if isinstance(base, types.ModuleType):
            return self.member(base, name)
        if base is tuple and name == "__new__":
            return tuple.__new__
        if name.startswith("__"):
            raise Doubt(name)
        if isinstance(base, type):
            if issubclass(base, Enum) and type(vars(base).get(name)) is not types.FunctionType:
                obj = base.__members__.get(name)
                if obj is not None:
                    return obj
            if id(base) in CALLABLES and not plain(vars(base).get(name)):
                return getattr(base, name)
        if isinstance(base, (struct.Struct, re.Pattern)):
            return getattr(base, name)
        if base is datetime.timezone and name == "utc":
            return datetime.UTC
        raise Doubt(name)

    def _call(self, scope: Scope, node: ast.Call) -> Any:
        called: Any = self.evaluate(scope, node.func)
        if called is frozenset and len(node.args) == 1:
            first = node.args[0]
            if isinstance(first, (ast.Set, ast.List, ast.Tuple)):
                return frozenset(self.evaluate(scope, item) for item in first.elts)
            given = self.evaluate(scope, first)
            if plain(given):
                return frozenset(given)
            raise Doubt(node)
        values = tuple(self.evaluate(scope, argument) for argument in node.args)
        if called is functools.partial:
            made: Any = functools.partial
            return made(*values)
        known = id(called) in CALLABLES and CALLABLES[id(called)][1] == SCALAR
        pure = known or called in {struct.Struct, re.compile}
        if not pure or not all(map(plain, values)):
            raise Doubt(node)
        return called(*values)


def _literal(node: ast.expr) -> None:
    for part in ast.walk(node):
        if not isinstance(part, (ast.Constant, ast.Tuple, ast.List, ast.expr_context)):
            raise Doubt(part)
