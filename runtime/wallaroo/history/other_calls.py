"""Calls in an application that return something else each time: a likely cause of differences."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from wallaroo.api.places import Place, is_application
from wallaroo.dataflow.guards import guarded
from wallaroo.history.other_functions import attribute, is_another
from wallaroo.model.application import Application

_SETUP = "application_setup"
"""The function that is called once."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = dict[str, Any]
"""Local names of a function, with what it imports by them, or None."""


def other_calls(application: Application) -> Iterator[tuple[str, Place]]:
    """Yield such calls in the modules of its functions and those that they import, each once.

    Only what is called by its name is found, as in `time.time()` after `import time`.
    """
    modules = _modules(application)
    for module in modules:  # which become more
        reader = _Reader(module)
        try:
            reader.visit(ast.parse(Path(str(module.__file__)).read_bytes()))
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        yield from sorted(dict.fromkeys(reader.found), key=lambda call: call[1].line)
        modules += [one for one in _of_application(reader.imported) if one not in modules]


def _modules(application: Application) -> list[ModuleType]:
    """The modules of functions of *application*."""
    names = dict[str, None]()

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        names[getattr(inspect.unwrap(function), "__module__", None) or ""] = None
        return function

    guarded(application, note)
    return _of_application([sys.modules[name] for name in names if name in sys.modules])


def _of_application(modules: list[ModuleType]) -> list[ModuleType]:
    return [
        one
        for one in dict.fromkeys(modules)
        if is_application(getattr(one, "__file__", None) or "<none>")
    ]


class _Reader(ast.NodeVisitor):
    """Reads the code of a module.

    Attributes:
        found: The calls.
        imported: The modules that it imports, also those of functions and classes.
    """

    def __init__(self, module: ModuleType) -> None:
        self.found = list[tuple[str, Place]]()
        self.imported = list[ModuleType]()
        self._names = vars(module)
        self._file = str(module.__file__)
        self._scopes = list[_Scope]()
        """Of the functions around what is read, the outermost one first."""
        self._once = True
        """Whether what is read is run when the application is loaded."""
        for value in tuple(self._names.values()):
            self._note(value)

    def visit_If(self, node: ast.If) -> None:
        is_main = not self._scopes and "__name__ == '__main__'" in ast.unparse(node.test)
        for part in node.orelse if is_main else ast.iter_child_nodes(node):
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node)

    def _visit_function(self, node: _Function) -> None:
        body = node.body if isinstance(node.body, list) else [node.body]
        for part in ast.iter_child_nodes(node):  # defaults and decorators belong to what is outside
            if part not in body:
                self.visit(part)
        self._scopes.append(self._scope(node, body))
        once = self._once
        self._once = once and getattr(node, "name", "") == _SETUP
        for part in body:
            self.visit(part)
        self._once = once
        self._scopes.pop()

    def visit_Call(self, node: ast.Call) -> None:
        passed = [*node.args, *(keyword.value for keyword in node.keywords)]
        given = [one for one in passed if not (isinstance(one, ast.Constant) and one.value is None)]
        if not self._is_found(node.func, len(given)):  # it is no reference, either
            inner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if inner is not node.func or not isinstance(inner, ast.Name):
                self.visit(inner)
        for one in passed:
            self.visit(one)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load) or not self._is_found(node, None):
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._is_found(node, None)

    def _is_found(self, function: ast.expr, arguments: int | None) -> bool:
        """Note *function* if it returns something else each time; see `is_another`."""
        if not is_another(self._value(function), arguments, once=self._once):
            return False
        when = ", called once" if self._once and arguments is not None else ""
        place = Place(self._file, function.end_lineno or function.lineno)
        self.found.append((f"{ast.unparse(function)}{when}", place))
        return True

    def _value(self, node: ast.expr) -> Any:
        """What *node* is, None if that is not known."""
        if isinstance(node, ast.Attribute):
            return attribute(self._value(node.value), node.attr)
        if not isinstance(node, ast.Name):
            return None
        inner = (scope for scope in reversed(self._scopes) if node.id in scope)
        return next(inner, self._names).get(node.id)

    def _scope(self, function: _Function, body: list[Any]) -> _Scope:
        scope, imported, outside = _Scope(), _Scope(), set[str]()
        for node in _within([function.args, *body]):
            scope.update(dict.fromkeys(_bound(node)))
            if isinstance(node, ast.Global):
                outside.update(node.names)
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    whole, top_module = sys.modules.get(alias.name), sys.modules.get(top)
                    imported[alias.asname or top] = whole if alias.asname else top_module
                    self._note(whole)
            if isinstance(node, ast.ImportFrom):
                module = self._imported_from(node)
                self._note(module)
                for alias in node.names:
                    imported[alias.asname or alias.name] = attribute(module, alias.name)
        for value in imported.values():
            self._note(value)
        return {name: value for name, value in (scope | imported).items() if name not in outside}

    def _imported_from(self, node: ast.ImportFrom) -> ModuleType | None:
        """The module, if it is loaded already."""
        name = "." * node.level + (node.module or "")
        try:
            return sys.modules.get(
                importlib.util.resolve_name(name, self._names.get("__package__") or "")
            )
        except ImportError:
            return None

    def _note(self, value: Any) -> None:
        """Note the module that *value* is, or that its definition or its class is in."""
        if not isinstance(value, ModuleType):
            kind = type(value)
            defined = value if kind is FunctionType or issubclass(kind, type) else kind
            value = sys.modules.get(str(defined.__module__))
        if isinstance(value, ModuleType):
            self.imported.append(value)


def _within(nodes: list[Any]) -> Iterator[ast.AST]:
    """*nodes* and what is in them, without the insides of functions and classes."""
    ahead = list(nodes)
    while ahead:
        node = ahead.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef):
            ahead.extend(ast.iter_child_nodes(node))


def _bound(node: ast.AST) -> list[str]:
    """The names that *node* binds, unless it imports them."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.alias | ast.keyword):
        return []
    names = (getattr(node, field, None) for field in ("name", "rest", "arg"))
    return [name for name in names if isinstance(name, str)]
