"""Analyses the statements of a function."""

from __future__ import annotations

import ast

from wallaroo.model.purity._calls import Calls
from wallaroo.model.purity._classes import check_exception
from wallaroo.model.purity._expressions import Analysis
from wallaroo.model.purity._flags import OBJECT, STREAM, UNSTABLE
from wallaroo.model.purity._names import Scope
from wallaroo.model.purity._source import Doubt, Function, names_stored
from wallaroo.model.purity._tables import NOT_ANALYSED


class Body(Calls):
    """Analyses one function.

    Args:
        analysis: Context of the analysis.
        scope: The function's module.
        node: Its definition.
        unused_self: Whether its first parameter must not be used.
        bound: The class to which its first parameter is bound, for a class method.
    """

    def __init__(
        self,
        analysis: Analysis,
        scope: Scope,
        node: Function,
        *,
        unused_self: bool,
        bound: type | None,
    ) -> None:
        super().__init__(analysis, scope)
        self._body: list[ast.stmt] = (
            [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        )
        given = node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        others = [one for one in (given.vararg, given.kwarg) if one is not None]
        self._parameters = [one.arg for one in (*parameters, *others)]
        self._result_flags = 0
        if unused_self:
            self.unused.add(self._parameters[0])
        if bound is not None:
            self.classes[self._parameters[0]] = bound

    def walk(self, flags: int) -> int:
        """Return the flags of its result for arguments with *flags*."""
        self.locals = dict.fromkeys((name for name, _ in names_stored(self._body)), 0)
        for name in self._parameters:
            self.locals[name] = self.locals.get(name, 0) | flags
        known = None
        while known != (known := dict(self.locals)):
            self._block(self._body)
        return self._result_flags

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:  # noqa: PLR0912
        match node:
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case ast.Expr():
                self.value(node.value)
            case ast.Return():
                self._returns(node)
            case ast.Assign():
                flags = self.value(node.value)
                for target in node.targets:
                    self._assign(target, flags)
            case ast.AnnAssign():
                if node.value is not None:
                    self._assign(node.target, self.value(node.value))
            case ast.AugAssign():
                self._augment(node)
            case ast.If() | ast.While():
                self.kept(node.test)
                self._block(node.body)
                self._block(node.orelse)
            case ast.For():
                self._assign(node.target, self.iterated(self.value(node.iter)))
                self._block(node.body)
                self._block(node.orelse)
            case ast.Raise():
                self._raise(node)
            case ast.Try(finalbody=[]):
                self._try(node)
            case _:
                raise Doubt(node)

    def _returns(self, node: ast.Return) -> None:
        flags = 0 if node.value is None else self.value(node.value)
        if flags & STREAM:
            raise Doubt(node)
        self._result_flags |= flags

    def _assign(self, target: ast.expr, flags: int) -> None:
        match target:
            case ast.Name():
                self.store(target.id, flags)
            case ast.Tuple() | ast.List():
                for part in target.elts:
                    self._assign(part, self.iterated(flags))
            case ast.Starred():
                self._assign(target.value, flags)
            case ast.Attribute() | ast.Subscript():
                self._change(target, flags)
            case _:
                raise Doubt(target)

    def _change(self, target: ast.Attribute | ast.Subscript, flags: int) -> None:
        """Record that a value with *flags* becomes an attribute or an item."""
        if self.analysis.finds_key:
            raise Doubt(target)
        self.kept(target.value)
        if isinstance(target, ast.Attribute):
            if self.is_static(target.value):
                raise Doubt(target)
            self.analysis.attribute(target.attr, OBJECT)
        else:
            flags |= self.kept(target.slice)
        self.analysis.hold(flags)

    def _augment(self, node: ast.AugAssign) -> None:
        if self.analysis.finds_key:  # it may modify the object in place
            raise Doubt(node)
        flags = self.value(node.value)
        if isinstance(node.target, ast.Name):
            flags = self.calculated(node.op, flags | self.locals[node.target.id])
            if not flags & UNSTABLE:
                self.analysis.hold(flags)
            self.store(node.target.id, flags)
        else:
            self._change(node.target, self.calculated(node.op, flags | OBJECT))

    def _raise(self, node: ast.Raise) -> None:
        for part in (node.exc, node.cause):
            if part is None:
                continue
            if self.is_static(part):
                self._exception(self.resolve(part))
            else:
                self.value(part)

    def _exception(self, obj: object) -> type:
        if not isinstance(obj, type) or not issubclass(obj, Exception):
            raise Doubt(obj)
        check_exception(obj, self.analysis.names)
        return obj

    def _try(self, node: ast.Try) -> None:
        self._block(node.body)
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            for kind in kinds:
                if kind is None or not self.is_static(kind):
                    raise Doubt(handler)
                caught = self._exception(self.resolve(kind))
                if any(issubclass(one, caught) or issubclass(caught, one) for one in NOT_ANALYSED):
                    raise Doubt(handler)
            if handler.name is not None:
                self.store(handler.name, OBJECT if self.analysis.finds_key else UNSTABLE)
            self._block(handler.body)
        self._block(node.orelse)
