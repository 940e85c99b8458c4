"""Analyses expressions: the flags of their values, if everything in them is known to be pure."""

from __future__ import annotations

import ast
import re
import struct
import types
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from wallaroo.model.purity._classes import Shape
from wallaroo.model.purity._flags import OBJECT, ORDER, STREAM, UNSTABLE, sound
from wallaroo.model.purity._names import Names, Scope, plain
from wallaroo.model.purity._source import Doubt
from wallaroo.model.purity._tables import CALLABLES, FORMAT, METHOD_NAMES


class Analysis(Protocol):
    """The context of an analysis; see `purity`."""

    names: Names
    held: int
    finds_key: bool
    calls_methods: bool
    keeps_methods: bool

    def function(
        self, function: types.FunctionType, flags: int, /, *, bound: type | None = None
    ) -> int: ...
    def shape(self, cls: type, /) -> Shape: ...
    def construct(self, cls: type, flags: int, /) -> int: ...
    def hold(self, flags: int, /) -> None: ...
    def text(self, flags: int, /) -> int: ...
    def attribute(self, name: str, flags: int, /) -> int: ...
    def compare(self, flags: int, /) -> None: ...
    def is_method(self, name: str, /) -> bool: ...
    def member(self, cls: type, member: Any, flags: int, /) -> int: ...


def flags_of_constant(value: Any) -> int:
    """Return the flags of a constant or literal."""
    if isinstance(value, tuple):
        flags = 0
        for item in value:
            flags |= flags_of_constant(item)
        return flags
    return ORDER if isinstance(value, frozenset) else 0


class Expressions:
    """Analyses the expressions of one function.

    Args:
        analysis: Context of the analysis.
        scope: The function's module.
    """

    def __init__(self, analysis: Analysis, scope: Scope) -> None:
        self.analysis = analysis
        self.scope = scope
        self.locals: dict[str, int] = {}
        """Flags of local names, as determined so far."""
        self.classes: dict[str, type] = {}
        """Local names that refer to classes."""
        self.unused: set[str] = set()
        """Local names that must not be used."""
        self._inner: list[dict[str, int]] = []
        """Names bound by the enclosing comprehensions."""

    def value(self, node: ast.expr) -> int:
        """Return the flags of the value of *node*.

        Raises:
            Doubt: Something in it is not known to be pure.
        """
        walk = getattr(self, f"_{type(node).__name__}", None)
        if walk is None:
            raise Doubt(node)
        flags: int = walk(node)
        return flags

    def kept(self, node: ast.expr) -> int:
        """The same for a value that is stored, compared or used in a calculation."""
        return sound(self.value(node))

    def iterated(self, flags: int) -> int:
        """Return the flags of the items of an iterable with *flags*."""
        if flags & UNSTABLE or (flags & ORDER and not self.analysis.finds_key):
            raise Doubt(flags)
        return flags & ~STREAM

    def is_local(self, name: str) -> bool:
        """Whether *name* is local to the function."""
        return name in self.locals or any(name in inner for inner in self._inner)

    def is_static(self, node: ast.expr) -> bool:
        """Whether *node* is a dotted name that starts with a name of the module."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and (
            node.id in self.classes or not self.is_local(node.id)
        )

    def resolve(self, node: ast.expr) -> Any:
        """Return the object to which the static *node* refers."""
        if isinstance(node, ast.Name):
            if node.id in self.classes:
                return self.classes[node.id]
            return self.analysis.names.lookup(self.scope, node.id)
        if isinstance(node, ast.Attribute):
            return self.analysis.names.attribute(self.resolve(node.value), node.attr)
        raise Doubt(node)

    def store(self, name: str, flags: int) -> None:
        """Bind the local *name* to a value with *flags*."""
        if flags & STREAM or name in self.unused or name in self.classes:
            raise Doubt(name)
        self.locals[name] = self.locals.get(name, 0) | flags

    def _Constant(self, _node: ast.Constant) -> int:  # noqa: N802 - as are all those below
        return 0

    def _Name(self, node: ast.Name) -> int:  # noqa: N802
        for inner in reversed(self._inner):
            if node.id in inner:
                return inner[node.id] | self.analysis.held
        if node.id in self.unused or node.id in self.classes:
            raise Doubt(node.id)
        if node.id in self.locals:
            return self.locals[node.id] | self.analysis.held
        return self._known(self.analysis.names.lookup(self.scope, node.id))

    def _known(self, obj: Any) -> int:
        """Return the flags of an object to which a name of a module refers."""
        if plain(obj):
            return flags_of_constant(obj)
        if type(obj) is struct.Struct:
            return OBJECT
        if type(obj) is re.Pattern:
            return 0
        if isinstance(obj, Enum) and self.analysis.shape(type(obj)).kind == "enum":
            return 0
        raise Doubt(obj)

    def _Attribute(self, node: ast.Attribute) -> int:  # noqa: N802
        if self.is_static(node.value):
            base = self.resolve(node.value)
            if isinstance(base, type) and id(base) not in CALLABLES and not issubclass(base, Enum):
                return self._of_class(base, node.attr)
            if isinstance(base, (type, types.ModuleType)):
                return self._known(self.analysis.names.attribute(base, node.attr))
        flags = self.analysis.attribute(node.attr, self.kept(node.value))
        if node.attr not in METHOD_NAMES and not self.analysis.is_method(node.attr):
            return flags
        self.analysis.keeps_methods = True  # it may become part of a message or a key
        return flags | OBJECT

    def _of_class(self, cls: type, name: str) -> int:
        """Return the flags of a constant of a user class."""
        self.analysis.shape(cls)
        for base in cls.__mro__:
            if name in vars(base):
                obj = vars(base)[name]
                if plain(obj):
                    return flags_of_constant(obj)
                break
        raise Doubt(name)

    def _Subscript(self, node: ast.Subscript) -> int:  # noqa: N802
        at = self.kept(node.slice)
        self.analysis.compare(at)
        if self.is_static(node.value):
            base = self.resolve(node.value)
            if isinstance(base, type):
                if not issubclass(base, Enum):
                    raise Doubt(node)
                return self.analysis.construct(base, at)
        return self.kept(node.value)

    def _Slice(self, node: ast.Slice) -> int:  # noqa: N802
        parts = (node.lower, node.upper, node.step)
        return self._all([part for part in parts if part is not None])

    def _all(self, nodes: Sequence[ast.expr]) -> int:
        """Return the combined flags of *nodes*, each of which is stored."""
        flags = 0
        for node in nodes:
            flags |= self.kept(node)
        return flags

    def _Starred(self, node: ast.Starred) -> int:  # noqa: N802
        return self.iterated(self.value(node.value))

    def _Tuple(self, node: ast.Tuple | ast.List) -> int:  # noqa: N802
        return self._all(node.elts)

    _List = _Tuple

    def _Set(self, node: ast.Set) -> int:  # noqa: N802
        return self._all(node.elts) | ORDER

    def _Dict(self, node: ast.Dict) -> int:  # noqa: N802
        return self._all([key for key in node.keys if key is not None]) | self._all(node.values)

    def _BoolOp(self, node: ast.BoolOp) -> int:  # noqa: N802
        return self._all(node.values)

    def _UnaryOp(self, node: ast.UnaryOp) -> int:  # noqa: N802
        flags = self.kept(node.operand)
        return 0 if isinstance(node.op, ast.Not) else flags

    def _BinOp(self, node: ast.BinOp) -> int:  # noqa: N802
        return self.calculated(node.op, self.value(node.left) | self.value(node.right))

    def calculated(self, op: ast.operator, flags: int) -> int:
        """Return the flags of the result of *op* for operands with *flags*."""
        if isinstance(op, ast.Mod):  # may be string formatting
            return self.analysis.text(sound(flags))
        if isinstance(op, ast.Add) and not flags & STREAM:
            return flags
        return sound(flags)

    def _Compare(self, node: ast.Compare) -> int:  # noqa: N802
        operands = [node.left, *node.comparators]
        for number, op in enumerate(node.ops):
            if not isinstance(op, (ast.Is, ast.IsNot)) or self.analysis.finds_key:
                continue
            if not any(map(self._is_one, operands[number : number + 2])):
                raise Doubt(node)
        flags = self._all(operands)
        self.analysis.compare(flags)
        return flags & ~ORDER

    def _is_one(self, node: ast.expr) -> bool:
        """Whether only one object can be equal to the value of *node*."""
        if isinstance(node, ast.Constant):
            return node.value is None or isinstance(node.value, bool)
        return self.is_static(node) and isinstance(self.resolve(node), (struct.Struct, Enum))

    def _IfExp(self, node: ast.IfExp) -> int:  # noqa: N802
        self.kept(node.test)
        return self.value(node.body) | self.value(node.orelse)

    def _NamedExpr(self, node: ast.NamedExpr) -> int:  # noqa: N802
        flags = self.value(node.value)
        self.store(node.target.id, flags)
        return flags

    def _JoinedStr(self, node: ast.JoinedStr) -> int:  # noqa: N802
        flags = 0
        for part in node.values:
            flags |= self.value(part)
        return flags

    def _FormattedValue(self, node: ast.FormattedValue) -> int:  # noqa: N802
        if node.format_spec is not None:
            match node.format_spec:
                case ast.JoinedStr(values=[ast.Constant(value=str(layout))]):
                    if not FORMAT.fullmatch(layout):
                        raise Doubt(node)
                case _:
                    raise Doubt(node)
        flags = self.value(node.value)
        if flags & STREAM:
            raise Doubt(node)
        return self.analysis.text(flags)

    def _ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> int:  # noqa: N802
        return self._comprehension(node.generators, [node.elt])

    def _SetComp(self, node: ast.SetComp) -> int:  # noqa: N802
        return self._ListComp(node) | ORDER

    def _GeneratorExp(self, node: ast.GeneratorExp) -> int:  # noqa: N802
        return self._ListComp(node) | STREAM

    def _DictComp(self, node: ast.DictComp) -> int:  # noqa: N802
        return self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, loops: list[ast.comprehension], items: list[ast.expr]) -> int:
        inner: dict[str, int] = {}
        opened = False
        for loop in loops:
            flags = self.iterated(self.value(loop.iter))
            if loop.is_async:
                raise Doubt(loop)
            if not opened:
                self._inner.append(inner)
                opened = True
            self._bind_inner(loop.target, flags, inner)
            for test in loop.ifs:
                self.kept(test)
        flags = self._all(items)
        self._inner.pop()
        return flags

    def _bind_inner(self, target: ast.expr, flags: int, inner: dict[str, int]) -> None:
        match target:
            case ast.Name():
                inner[target.id] = flags
            case ast.Tuple() | ast.List():
                for part in target.elts:
                    self._bind_inner(part, self.iterated(flags), inner)
            case ast.Starred():
                self._bind_inner(target.value, flags, inner)
            case _:
                raise Doubt(target)
