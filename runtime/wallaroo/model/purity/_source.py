"""Python source files: the names bound in them, and the definitions of code objects."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass, field

from wallaroo.model.frozen_code import source_of
from wallaroo.model.purity._tables import words

Function = ast.FunctionDef | ast.Lambda


class Doubt(Exception):
    """Something is not known to be pure."""


_REWRITES = words(
    """globals vars locals exec eval setattr delattr __import__ __builtins__ builtins importlib
    reload __dict__ __setattr__ __delattr__ __globals__ __code__ __defaults__ __kwdefaults__
    __closure__ __setstate__ f_globals modules"""
)
"""Names with which a module may rebind names in ways that its source does not show."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_stored(nodes: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that *nodes* bind in their scope, each with the binding node."""
    waiting: list[ast.AST] = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], node
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name, node
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest, node
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                yield node.name, node
                waiting += [*node.decorator_list]
            continue
        if isinstance(
            node, _COMPREHENSIONS
        ):  # its targets are local, unlike those of a walrus operator
            waiting += [n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
            continue
        waiting += ast.iter_child_nodes(node)


@dataclass
class Source:
    """A Python source file with its bindings."""

    tree: ast.Module
    code: types.CodeType
    bound: dict[str, ast.AST | None] = field(default_factory=dict)
    """Binding node of each name of the module; None unless it is a single top-level statement."""
    patched: set[str] = field(default_factory=set)
    """Names of objects whose attributes or items are assigned."""
    rewrites: bool = False
    """Whether the module may bind names in ways that are not visible."""

    _definitions: dict[tuple[str, int], list[ast.AST]] = field(default_factory=dict)
    """Functions by name and line."""

    @classmethod
    def of(cls, path: str) -> Source:
        """Read the file *path*."""
        text = source_of(path)
        source = cls(ast.parse(text), compile(text, path, "exec", dont_inherit=True))
        source._bind()
        source._scan()
        return source

    def _bind(self) -> None:
        for name, _ in names_stored(self.tree.body):
            self.bound[name] = None if name in self.bound else ast.Pass()
        for statement in self.tree.body:
            for name, definition in _top_level(statement):
                if self.bound[name] is not None:
                    self.bound[name] = definition
        for name, node in self.bound.items():
            if isinstance(node, ast.Pass):
                self.bound[name] = None

    def _scan(self) -> None:
        for node in ast.walk(self.tree):
            if (line := _first_line(node)) is not None:
                self._definitions.setdefault(line, []).append(node)
            if isinstance(node, ast.Global):
                self.bound.update(dict.fromkeys(node.names, None))
            elif isinstance(node, ast.Name):
                self.rewrites |= node.id in _REWRITES
            elif isinstance(node, ast.Attribute):
                self.rewrites |= node.attr in _REWRITES
                if node.attr == "__init__":  # equivalent to replacing the object
                    self._note_patch(node.value)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.rewrites |= any(a.name in {"*", "builtins"} for a in node.names)
            if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
                node.ctx, (ast.Store, ast.Del)
            ):
                self._note_patch(node)

    def _note_patch(self, node: ast.expr) -> None:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            self.rewrites |= isinstance(node, ast.Attribute) and node.attr == "__class__"
            node = node.value
        if isinstance(node, ast.Name):
            self.patched.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            self.rewrites |= node.func.id == "type"

    def function(self, code: types.CodeType) -> Function:
        """Return the definition from which *code* was compiled.

        Raises:
            Doubt: There is none, or it is ambiguous.
        """
        place = (code.co_name, code.co_firstlineno)
        nodes = self._definitions.get(place, [])
        codes = [it for it in _codes(self.code) if (it.co_name, it.co_firstlineno) == place]
        if len(nodes) != 1 or codes != [code]:
            raise Doubt(code)
        if not isinstance(nodes[0], (ast.FunctionDef, ast.Lambda)):
            raise Doubt(code)
        return nodes[0]


def _top_level(statement: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a top-level *statement* binds, each with the node that defines it."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name, statement
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0], statement
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        if statement.value is not None:
            yield statement.target.id, statement.value
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
            elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                parts = [*target.elts, *statement.value.elts]
                if len(target.elts) == len(statement.value.elts) and not any(
                    isinstance(part, ast.Starred) for part in parts
                ):
                    for part, value in zip(target.elts, statement.value.elts, strict=True):
                        if isinstance(part, ast.Name):
                            yield part.id, value


def _first_line(node: ast.AST) -> tuple[str, int] | None:
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name, min(at.lineno for at in [node, *node.decorator_list])
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)
