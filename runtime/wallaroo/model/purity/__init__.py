"""Proves that decoding a payload again yields an equal message, and that its key function is pure.

A payload may cross to the worker of its key and be decoded again there only if that cannot yield a
different message. The proof analyses the source code of the functions: everything in it must be
known to be pure, and anything unknown counts as impure. It assumes that all processes of a run
share the files of the application, Python with its options, and an `application_setup` that wires
the same functions.

Flags describe the values of expressions. A plain value, without flags, has the same text and the
same order in every process.
"""

from __future__ import annotations

import ast
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from wallaroo.api.functions import Decoder, KeyExtractor
from wallaroo.model.purity._classes import AS_TEXT, CONSTRUCTORS, SPECIAL, Shape, shape_of
from wallaroo.model.purity._flags import OBJECT, ORDER, STREAM, UNSTABLE, sound
from wallaroo.model.purity._names import Names, Scope
from wallaroo.model.purity._source import Doubt
from wallaroo.model.purity._statements import Body
from wallaroo.model.purity._tables import CALLABLES, PURE_METHODS, SCALAR

_OPERATIONS = SPECIAL - CONSTRUCTORS - AS_TEXT - {"__hash__"}


def is_repeatable(decode: Callable[[bytes], Any], key: Callable[[Any], Any]) -> bool:
    """Whether payloads may be decoded again in another process.

    True only if decoding a payload again always yields an equal message, and extracting the key
    never changes the message; False if that is uncertain.

    Args:
        decode: From payload to message.
        key: From message to key; need not return the same key again.
    """
    try:
        analysis = _Analysis()
        while not analysis.run(decode, key):
            pass
    except Exception:  # user code may be anything; a failed analysis proves nothing
        return False
    return True


class _Analysis:
    """Analyses a decoder, a key function and everything that they call.

    Attributes:
        names: Looks up names.
        held: Flags of all values that are stored in objects and containers.
        finds_key: Whether the key function is being analysed: it must not change anything, but may
            use values that differ between processes.
        calls_methods: Whether the key function calls methods of user classes.
        keeps_methods: Whether a value that may be a method is used without being called directly.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.held = 0
        self.finds_key = False
        self.calls_methods = self.keeps_methods = False
        self._shapes: dict[type, Shape] = {}
        self._used: dict[bool, set[str]] = {False: set(), True: set()}
        self._results: dict[tuple[Any, ...], int | None] = {}

    def run(self, decode: Callable[[bytes], Any], key: Callable[[Any], Any]) -> bool:
        """Analyse both; returns whether a fixed point is reached.

        Raises:
            Doubt: Something is not known to be pure.
        """
        previous = self.held, len(self._shapes)
        self._results.clear()
        self._enter(finds_key=False)
        if self._outermost(decode, 0) & (UNSTABLE | STREAM):
            raise Doubt(decode)
        for cls in list(self._shapes):
            self._check_members(cls, SPECIAL - CONSTRUCTORS)
        self._enter(finds_key=True)
        self._outermost(key, OBJECT)
        for cls in list(self._shapes):
            self._check_members(cls, SPECIAL - CONSTRUCTORS)
        if self.calls_methods and self.keeps_methods:
            raise Doubt(key)
        return previous == (self.held, len(self._shapes))

    def _enter(self, *, finds_key: bool) -> None:
        self.finds_key = finds_key
        self.names.same_everywhere = not finds_key

    def _outermost(self, function: Any, flags: int) -> int:
        """Analyse the decoder or the key function itself."""
        if type(function) in {Decoder, KeyExtractor}:
            function = vars(function)["function"]
        if isinstance(function, types.MethodType):
            return self.function(function.__func__, flags, unused_self=True)
        if isinstance(function, types.FunctionType):
            return self.function(function, flags)
        if type(function) is types.MethodDescriptorType:
            if function.__objclass__ in {bytes, str} and function.__name__ in PURE_METHODS:
                return 0
        elif type(function) in {operator.itemgetter, operator.attrgetter} and self.finds_key:
            _, names = function.__reduce__()
            if type(function) is operator.attrgetter:
                for name in ".".join(names).split("."):
                    self.attribute(name, flags)
            return OBJECT
        elif CALLABLES.get(id(function), (None, None))[1] == SCALAR:
            return 0
        raise Doubt(function)

    def function(
        self,
        function: Any,
        flags: int,
        *,
        unused_self: bool = False,
        bound: type | None = None,
    ) -> int:
        """Return the flags of *function*'s result for arguments with *flags*.

        Args:
            function: A user function.
            flags: Combined flags of all its arguments.
            unused_self: Whether its first parameter must not be used.
            bound: The class to which its first parameter is bound, for a class method.
        """
        if not isinstance(function, types.FunctionType):
            raise Doubt(function)
        call = (function, flags, unused_self, bound, self.finds_key)
        if call in self._results:
            cached = self._results[call]
            if cached is None:  # it is recursive
                raise Doubt(function)
            return cached
        self._results[call] = None
        code = function.__code__
        if code.co_freevars or code.co_cellvars:
            raise Doubt(function)
        scope = self.names.scope(function.__globals__, code.co_filename)
        node = scope.source.function(code)
        self._check_defaults(function, node.args, scope)
        result = Body(self, scope, node, unused_self=unused_self, bound=bound).walk(flags)
        self._results[call] = result
        return result

    def _check_defaults(
        self, function: types.FunctionType, arguments: ast.arguments, scope: Scope
    ) -> None:
        """Check that defaults are constants and agree with the source."""
        keywords = function.__kwdefaults__ or {}
        keyword_only = zip(
            (a.arg for a in arguments.kwonlyargs), arguments.kw_defaults, strict=True
        )
        pairs = [
            *zip(arguments.defaults, function.__defaults__ or (), strict=True),
            *((node, keywords[name]) for name, node in keyword_only if node is not None),
        ]
        for node, default in pairs:
            self.names.check_constant(scope, node, default)

    def shape(self, cls: type) -> Shape:
        """Return the shape of *cls*, whose special methods are analysed."""
        if cls not in self._shapes:
            self._shapes[cls] = shape_of(cls, self.names)
            self._check_members(cls, self._used[self.finds_key])
        return self._shapes[cls]

    def construct(self, cls: type, flags: int) -> int:
        """Return the flags of an instance of *cls* created from arguments with *flags*."""
        shape = self.shape(cls)
        if shape.kind == "enum":
            return 0
        self.hold(flags)
        self._check_members(cls, CONSTRUCTORS, flags)
        simple = shape.shows_fields and not shape.functions.keys() & _OPERATIONS
        return flags | self.held | (0 if simple else OBJECT)

    def hold(self, flags: int) -> None:
        """Record that a value with *flags* becomes part of another one."""
        if not self.finds_key:
            self.held |= sound(flags)

    def text(self, flags: int) -> int:
        """Return the flags of the text of a value with *flags*."""
        if self.finds_key:
            return flags
        return UNSTABLE if flags & (OBJECT | ORDER | UNSTABLE) else 0

    def attribute(self, name: str, flags: int) -> int:
        """Return the flags of an attribute of a value with *flags*, or of its result if called."""
        if name.startswith("__"):
            raise Doubt(name)
        self._used[self.finds_key].add(name)
        results = [self._check_members(cls, {name}, flags) for cls in list(self._shapes)]
        return functools.reduce(operator.or_, results, flags)

    def is_method(self, name: str) -> bool:
        """Whether a user class has a method *name*."""
        members = [shape.functions.get(name) for shape in self._shapes.values()]
        return any(member and not isinstance(member, property) for member in members)

    def compare(self, flags: int) -> None:
        """Record that a value with *flags* may be passed to a special method."""
        if any(shape.functions.keys() & _OPERATIONS for shape in self._shapes.values()):
            self.hold(flags & ORDER)

    def _check_members(self, cls: type, which: Any, flags: int = OBJECT) -> int:
        """Analyse some functions of *cls*; returns the combined flags of their results."""
        combined, functions = 0, self._shapes[cls].functions
        for name in functions.keys() & which:
            result = self.member(cls, functions[name], flags | OBJECT)
            if name in _OPERATIONS:
                self.hold(sound(result) & ORDER)
            if name not in SPECIAL:
                combined |= result
        return combined

    def member(self, cls: type, member: Any, flags: int) -> int:
        """Return the flags of the result of *member* of *cls* for arguments with *flags*."""
        if isinstance(member, property):
            if member.fget is None or (member.fset is not None and not self.finds_key):
                raise Doubt(member)
            return self.function(member.fget, flags)
        if isinstance(member, classmethod):
            return self.function(member.__func__, flags, bound=cls)
        function = member.__func__ if isinstance(member, staticmethod) else member
        return self.function(function, flags)
