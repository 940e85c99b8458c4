"""Whether a decoder gives the same message again, and a key function leaves it as it is.

A payload may cross to the worker of its key, and be decoded again there, only where that cannot
give another message. It is found out from the functions' source: everything in it has to be known
to be pure, and what is not known is taken not to be. Assumed is what all processes of a run share:
the files of the application, Python and its options, and an `application_setup` that wires the same
functions in each of them.

What expressions give is described by flags. A plain value, without any, has the same text and the
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

    True only where decoding a payload again must give an equal message, and where finding the key
    must leave the message as it is; False wherever that is not certain.

    Args:
        decode: From payload to message.
        key: From message to key; it need not give the same key again.
    """
    try:
        analysis = _Analysis()
        while not analysis.settled(decode, key):
            pass
    except Exception:  # whatever user code is like, not to know is an answer
        return False
    return True


class _Analysis:
    """Walks what a decoder and a key function call.

    Attributes:
        names: Looks names up.
        held: Flags of what is stored into objects and containers anywhere.
        finds_key: Whether it is the key function that is walked: nothing may be changed then, but
            what differs from process to process may be used.
        calls_methods: Whether the key function calls methods of the user's classes.
        keeps_methods: Whether there is what may be a method and is not called at once.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.held = 0
        self.finds_key = False
        self.calls_methods = self.keeps_methods = False
        self._shapes: dict[type, Shape] = {}
        self._used: dict[bool, set[str]] = {False: set(), True: set()}
        self._results: dict[tuple[Any, ...], int | None] = {}

    def settled(self, decode: Callable[[bytes], Any], key: Callable[[Any], Any]) -> bool:
        """Walk both; whether that found nothing which a second walk would have to know.

        Raises:
            Doubt: Something is not known to be pure.
        """
        before = self.held, len(self._shapes)
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
        return before == (self.held, len(self._shapes))

    def _enter(self, *, finds_key: bool) -> None:
        self.finds_key = finds_key
        self.names.same_everywhere = not finds_key

    def _outermost(self, function: Any, flags: int) -> int:
        """Walk what was given as a decoder or as a key function."""
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
            _, given = function.__reduce__()
            if type(function) is operator.attrgetter:
                for name in ".".join(given).split("."):
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
        """Flags of what *function* gives for arguments with *flags*.

        Args:
            function: A function of the user's.
            flags: Those of all its arguments together.
            unused_self: Whether its first parameter must not be used.
            bound: The class that its first parameter is, for a class method.
        """
        if not isinstance(function, types.FunctionType):
            raise Doubt(function)
        known = (function, flags, unused_self, bound, self.finds_key)
        if known in self._results:
            found = self._results[known]
            if found is None:  # it calls itself
                raise Doubt(function)
            return found
        self._results[known] = None
        code = function.__code__
        if code.co_freevars or code.co_cellvars:
            raise Doubt(function)
        scope = self.names.scope(function.__globals__, code.co_filename)
        node = scope.source.function(code)
        self._check_defaults(function, node.args, scope)
        result = Body(self, scope, node, unused_self=unused_self, bound=bound).walk(flags)
        self._results[known] = result
        return result

    def _check_defaults(
        self, function: types.FunctionType, given: ast.arguments, scope: Scope
    ) -> None:
        """See that defaults are constants, and what the source says that they are."""
        keywords = function.__kwdefaults__ or {}
        named = zip((a.arg for a in given.kwonlyargs), given.kw_defaults, strict=True)
        pairs = [
            *zip(given.defaults, function.__defaults__ or (), strict=True),
            *((node, keywords[name]) for name, node in named if node is not None),
        ]
        for node, default in pairs:
            self.names.check_constant(scope, node, default)

    def shape(self, cls: type) -> Shape:
        """What making an instance of *cls* means; its special methods are walked."""
        if cls not in self._shapes:
            self._shapes[cls] = shape_of(cls, self.names)
            self._check_members(cls, self._used[self.finds_key])
        return self._shapes[cls]

    def construct(self, cls: type, flags: int) -> int:
        """Flags of an instance of *cls*, made of arguments with *flags*."""
        shape = self.shape(cls)
        if shape.kind == "enum":
            return 0
        self.hold(flags)
        self._check_members(cls, CONSTRUCTORS, flags)
        simple = shape.shows_fields and not shape.functions.keys() & _OPERATIONS
        return flags | self.held | (0 if simple else OBJECT)

    def hold(self, flags: int) -> None:
        """Something with *flags* becomes part of something else."""
        if not self.finds_key:
            self.held |= sound(flags)

    def text(self, flags: int) -> int:
        """Flags of the text of something with *flags*."""
        if self.finds_key:
            return flags
        return UNSTABLE if flags & (OBJECT | ORDER | UNSTABLE) else 0

    def attribute(self, name: str, flags: int) -> int:
        """Flags of what an attribute of something with *flags* is, or of what its call gives."""
        if name.startswith("__"):
            raise Doubt(name)
        self._used[self.finds_key].add(name)
        found = [self._check_members(cls, {name}, flags) for cls in list(self._shapes)]
        return functools.reduce(operator.or_, found, flags)

    def is_method(self, name: str) -> bool:
        """Whether a class of the user's has a method *name*."""
        members = [shape.functions.get(name) for shape in self._shapes.values()]
        return any(member and not isinstance(member, property) for member in members)

    def compare(self, flags: int) -> None:
        """Something with *flags* may become an argument of a special method."""
        if any(shape.functions.keys() & _OPERATIONS for shape in self._shapes.values()):
            self.hold(flags & ORDER)

    def _check_members(self, cls: type, which: Any, flags: int = OBJECT) -> int:
        """Walk those functions of *cls*; flags of all that they give."""
        result, functions = 0, self._shapes[cls].functions
        for name in functions.keys() & which:
            found = self.member(cls, functions[name], flags | OBJECT)
            if name in _OPERATIONS:
                self.hold(sound(found) & ORDER)
            if name not in SPECIAL:
                result |= found
        return result

    def member(self, cls: type, member: Any, flags: int) -> int:
        """Flags of what *member* of *cls* gives for arguments with *flags*."""
        if isinstance(member, property):
            if member.fget is None or (member.fset is not None and not self.finds_key):
                raise Doubt(member)
            return self.function(member.fget, flags)
        if isinstance(member, classmethod):
            return self.function(member.__func__, flags, bound=cls)
        function = member.__func__ if isinstance(member, staticmethod) else member
        return self.function(function, flags)
