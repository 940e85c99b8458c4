"""Analyses calls of pure builtins, user functions and classes, and methods."""

from __future__ import annotations

import ast
import datetime
import functools
import re
import string
import struct
import types
from typing import Any

from wallaroo.api.functions import Decoder, KeyExtractor
from wallaroo.model.purity._classes import check_exception
from wallaroo.model.purity._expressions import Expressions
from wallaroo.model.purity._flags import OBJECT, ORDER, STREAM, UNSTABLE, sound
from wallaroo.model.purity._source import Doubt
from wallaroo.model.purity._tables import (
    CALLABLES,
    CLASS_METHODS,
    CODEC_ERRORS,
    CODECS,
    CONSUME,
    DATE_FORMAT,
    FORMAT,
    ITERATING_METHODS,
    KEYWORDS,
    MUTATING_METHODS,
    OWN_NAMES,
    PURE_METHODS,
    SCALAR,
    SET,
    STREAM_METHODS,
    TEXT,
    VALUE_TYPES,
)
from wallaroo.model.purity._tables import STREAM as STREAMING

_ITERATING = frozenset({bytes, bytearray})
"""Builtins that convert an iterable to a plain value."""


class Calls(Expressions):
    """Analyses the calls of one function."""

    def _Call(self, node: ast.Call) -> int:  # noqa: N802
        if isinstance(node.func, ast.Attribute):
            if not self.is_static(node.func.value):
                return self._method(node, node.func, self.kept(node.func.value))
            base = self.resolve(node.func.value)
            if isinstance(base, type) and id(base) not in CALLABLES:
                return self._of_class_call(base, node.func.attr, node)
            if base is datetime.datetime and node.func.attr in {"fromtimestamp", "strptime"}:
                return self._date(node, node.func.attr)
            if not isinstance(base, (type, types.ModuleType)):
                is_struct = type(base) is struct.Struct
                return self._method(node, node.func, 0 if is_struct else self.kept(node.func.value))
        if not self.is_static(node.func):
            raise Doubt(node)
        return self._known_call(self.resolve(node.func), node)

    def _known_call(self, called: Any, node: ast.Call) -> int:
        if called is isinstance:
            return self._isinstance(node)
        if called is map or called is filter:
            return self._map(node)
        decodes = _decodes(called)
        if (decodes or called is re.sub) and any(isinstance(it, ast.Starred) for it in node.args):
            raise Doubt(node)
        if decodes and (len(node.args) > 1 or node.keywords):
            self._check_codec(node.args[1:], node.keywords)
            self.kept(node.args[0])
            return 0
        if called is re.sub and not _is_text(node.args[1:2]):
            raise Doubt(node)
        if isinstance(called, type) and id(called) not in CALLABLES:
            if issubclass(called, BaseException):
                check_exception(called, self.analysis.names)
                if node.keywords or self._arguments(node) & STREAM:
                    raise Doubt(node)
                return OBJECT if self.analysis.finds_key else UNSTABLE
            return self.analysis.construct(called, sound(self._arguments(node)))
        user = isinstance(called, types.FunctionType) and id(called) not in CALLABLES
        if not user and called is not dict:
            self._check_keywords(node)
        return self.apply(called, self._arguments(node))

    def apply(self, called: Any, flags: int) -> int:  # noqa: PLR0911
        """Return the flags of the result of *called* for arguments with *flags*."""
        if id(called) in CALLABLES:
            return self._builtin(called, CALLABLES[id(called)][1], flags)
        if type(called) in {Decoder, KeyExtractor}:
            called = vars(called)["function"]
        if isinstance(called, types.FunctionType):
            if flags & STREAM:
                raise Doubt(called)
            return self.analysis.function(called, flags)
        if type(called) is functools.partial:
            kind = called.args[0]
            if called.func is not tuple.__new__ or self.analysis.shape(kind).kind != "named tuple":
                raise Doubt(called)
            return self.analysis.construct(kind, self.iterated(flags))
        if isinstance(called, type):
            return self.analysis.construct(called, sound(flags))
        name = called.__name__
        if type(called) is types.MethodDescriptorType:
            if called.__objclass__ in VALUE_TYPES and name in PURE_METHODS:
                return self._result(name, flags)
        elif type(called) is types.BuiltinMethodType:
            owner = called.__self__
            if type(owner) in {struct.Struct, re.Pattern} and name in PURE_METHODS - {"sub"}:
                return sound(flags)
            if isinstance(owner, type) and name in CLASS_METHODS.get(owner, ()):
                return self.iterated(flags)
        raise Doubt(called)

    def _builtin(self, called: Any, kind: str, flags: int) -> int:
        if kind == CONSUME or called in _ITERATING:
            return self.iterated(flags)
        if kind == STREAMING:
            return self.iterated(flags) | STREAM
        if kind == SET:
            return sound(flags & ~STREAM) | ORDER
        if kind == TEXT:
            return self.analysis.text(flags & ~STREAM | sound(flags & STREAM))
        sound(flags)
        if kind == SCALAR or self.analysis.finds_key:
            return 0
        return UNSTABLE

    def _arguments(self, node: ast.Call) -> int:
        """Return the combined flags of all arguments."""
        flags = 0
        for argument in node.args:
            flags |= self.value(argument)
        for keyword in node.keywords:
            flags |= self.value(keyword.value)
        return flags

    def _check_keywords(self, node: ast.Call) -> None:
        if any(keyword.arg not in KEYWORDS for keyword in node.keywords):
            raise Doubt(node)

    def _method(self, node: ast.Call, func: ast.Attribute, base: int) -> int:
        """Return the flags of the result of a method call."""
        name = func.attr
        if name == "format":
            return self._format(node, func)
        flags = self._arguments(node)
        if flags & STREAM and name not in ITERATING_METHODS:
            raise Doubt(node)
        if name in OWN_NAMES or name.startswith("_"):
            if name != "_replace":
                self._check_keywords(node)
            self._check_method(name, node, base, flags)
        elif not self.analysis.is_method(name):
            raise Doubt(name)
        else:
            self.analysis.calls_methods |= self.analysis.finds_key
        if name == "_replace":
            self.analysis.hold(flags)
        result = self.analysis.attribute(name, base | (flags & ~STREAM))
        return result | self._result(name, base | flags)

    def _check_method(self, name: str, node: ast.Call, base: int, flags: int) -> None:
        if name in {"decode", "encode"}:
            self._check_codec(node.args, node.keywords)
        if name == "sub" and not _is_text(node.args[:1]):
            raise Doubt(name)
        if name in MUTATING_METHODS:
            if self.analysis.finds_key or (name == "pop" and base & ORDER):
                raise Doubt(name)
            self.analysis.hold(flags & ~STREAM)
        elif name not in PURE_METHODS | STREAM_METHODS:
            raise Doubt(name)

    def _result(self, name: str, flags: int) -> int:
        if name in ITERATING_METHODS and flags & STREAM:
            flags = self.iterated(flags)
        elif name in {"join", "extend"}:
            self.iterated(flags)
        sound(flags)
        return flags | (STREAM if name in STREAM_METHODS else 0)

    def _format(self, node: ast.Call, func: ast.Attribute) -> int:
        """Return the flags of `"…".format(…)`."""
        if not isinstance(func.value, ast.Constant) or not isinstance(func.value.value, str):
            raise Doubt(node)
        for _, name, layout, _ in string.Formatter().parse(func.value.value):
            if name is not None and set(name) & set(".["):
                raise Doubt(node)
            if layout and not FORMAT.fullmatch(layout):
                raise Doubt(node)
        flags = self._arguments(node)
        if flags & STREAM:
            raise Doubt(node)
        return self.analysis.text(flags)

    def _of_class_call(self, cls: type, name: str, node: ast.Call) -> int:
        shape = self.analysis.shape(cls)
        flags = self._arguments(node)
        if name == "_make" and shape.kind == "named tuple":
            return self.analysis.construct(cls, self.iterated(flags))
        if name.startswith("__") or flags & STREAM:
            raise Doubt(name)
        return self.analysis.member(cls, shape.functions[name], flags)

    def _check_codec(self, positional: list[ast.expr], keywords: list[ast.keyword]) -> None:
        """Check that text is decoded with an encoding built into Python."""
        arguments = {keyword.arg: keyword.value for keyword in keywords}
        arguments |= dict(zip(("encoding", "errors"), positional, strict=False))
        for name, node in arguments.items():
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                raise Doubt(node)
            plain_name = node.value.lower().replace("-", "").replace("_", "").replace(" ", "")
            if node.value not in CODEC_ERRORS if name == "errors" else plain_name not in CODECS:
                raise Doubt(node)

    def _isinstance(self, node: ast.Call) -> int:
        value, kinds = node.args
        for kind in kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]:
            if not self.is_static(kind) or type(self.resolve(kind)) is not type:
                raise Doubt(node)
        self.kept(value)
        return 0

    def _map(self, node: ast.Call) -> int:
        if node.keywords:
            raise Doubt(node)
        called, *iterables = node.args
        flags = 0
        for iterable in iterables:
            flags |= self.iterated(self.value(iterable))
        if isinstance(called, ast.Constant) and called.value is None:
            return flags | STREAM
        if not self.is_static(called):
            raise Doubt(node)
        function = self.resolve(called)
        if len(iterables) > 1 and not isinstance(function, types.FunctionType):
            raise Doubt(node)
        result = sound(self.apply(function, flags))
        return result | flags | STREAM

    def _date(self, node: ast.Call, name: str) -> int:
        """Return the flags of a date created independently of local time zone and locale."""
        arguments = [*node.args, *(k.value for k in node.keywords if k.arg == "tz")]
        if len(arguments) != 2 or len(node.args) + len(node.keywords) != 2:  # noqa: PLR2004
            raise Doubt(node)
        self.kept(arguments[0])
        match arguments[1]:
            case ast.Constant(value=str(layout)) if name == "strptime":
                if not DATE_FORMAT.fullmatch(layout):
                    raise Doubt(node)
            case ast.Name() | ast.Attribute() if name == "fromtimestamp":
                if not self.is_static(arguments[1]) or (
                    self.resolve(arguments[1]) is not datetime.UTC
                ):
                    raise Doubt(node)
            case _:
                raise Doubt(node)
        return 0


def _decodes(called: Any) -> bool:
    """Whether the second argument of *called* is the name of an encoding."""
    if isinstance(called, types.MethodDescriptorType):
        return called.__name__ in {"decode", "encode"}
    return any(called is one for one in (str, bytes, bytearray))


def _is_text(nodes: list[ast.expr]) -> bool:
    return bool(nodes) and isinstance(nodes[0], ast.Constant)
