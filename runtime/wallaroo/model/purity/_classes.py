"""Analyses user classes: whether they agree with their source, and their functions."""

from __future__ import annotations

import ast
import binascii
import collections
import dataclasses
import enum
import inspect
import json
import struct
import sys
import types
import typing
import zlib
from dataclasses import dataclass
from typing import Any

from wallaroo.model.purity._names import Names, Scope, same
from wallaroo.model.purity._source import Doubt
from wallaroo.model.purity._tables import HEAP_TYPE, words

SPECIAL = words(
    """__init__ __post_init__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __len__
    __contains__ __getitem__ __repr__ __str__ __format__"""
)
"""Special methods that classes may define; each is analysed."""
CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
AS_TEXT = frozenset({"__repr__", "__str__", "__format__"})
_MACHINERY = words(
    """__module__ __doc__ __qualname__ __dict__ __weakref__ __slots__ __annotations__
    __annotations_cache__ __annotate__ __annotate_func__ __firstlineno__ __static_attributes__
    __match_args__ __parameters__ __orig_bases__ __dataclass_fields__ __dataclass_params__
    _fields _field_defaults"""
)
_ANNOTATE = frozenset({"__annotate__", "__annotate_func__"})
"""Functions that Python 3.14 and later add to a class, for its annotations."""
_ERRORS = frozenset({struct.error, binascii.Error, zlib.error, json.JSONDecodeError})
_FACTORIES = (list, dict, str, int, float, bytes, bytearray, tuple, bool)
_ENUMS = frozenset(
    {
        enum.Enum,
        enum.IntEnum,
        enum.StrEnum,
        enum.Flag,
        enum.IntFlag,
        enum.ReprEnum,
        int,
        str,
        object,
    }
)
_FIELD = words("default default_factory init repr hash compare kw_only")


@dataclass
class Shape:
    """The properties of a class that matter for its instances.

    Attributes:
        kind: "named tuple", "dataclass", "plain" or "enum".
        functions: User functions by name, with their wrappers (such as `property`).
        shows_fields: Whether its text consists of its fields only.
    """

    kind: str
    functions: dict[str, Any]
    shows_fields: bool


def shape_of(cls: type, names: Names) -> Shape:
    """Determine the shape of *cls*.

    Raises:
        Doubt: It differs from its source, or is of an unknown kind.
    """
    if isinstance(cls, enum.EnumMeta):
        _check_enum(cls, names)
        return Shape("enum", {}, shows_fields=True)
    if type(cls) is not type:
        raise Doubt(cls)
    if cls.__bases__ == (tuple,):
        functions = _of_named_tuple(cls, names)
        return Shape("named tuple", functions, not AS_TEXT & functions.keys())
    functions = {}
    for base in reversed(cls.__mro__):
        if base not in {object, typing.Generic}:
            functions |= _of_class(base, names)
    is_data = "__dataclass_fields__" in vars(cls)
    shows = is_data and not AS_TEXT & functions.keys() and bool(_params(cls).repr)
    generated = is_data and "__init__" not in functions and _params(cls).init
    return Shape("dataclass" if generated else "plain", functions, bool(shows))


def _params(cls: type) -> Any:
    return vars(cls)["__dataclass_params__"]


def definition(cls: type, names: Names) -> tuple[Scope, ast.AST]:
    """Return the scope of *cls* and its definition."""
    scope = names.scope(vars(sys.modules[cls.__module__]))
    if names.lookup(scope, cls.__name__) is not cls:
        raise Doubt(cls)
    node = scope.source.bound[cls.__name__]
    if not isinstance(node, (ast.ClassDef, ast.Call)):
        raise Doubt(cls)
    return scope, node


def _body(cls: type, names: Names) -> tuple[Scope, ast.ClassDef]:
    scope, node = definition(cls, names)
    if not isinstance(node, ast.ClassDef) or node.keywords:
        raise Doubt(cls)
    return scope, node


def _assigned(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    """Return the class's assignments by name; the rest of its body must be definitions."""
    assignments: dict[str, ast.expr | None] = {}
    defined = set()
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                value: ast.expr | None = statement.value
            case ast.AnnAssign(target=ast.Name(id=name)):
                value = statement.value
            case ast.FunctionDef(name=name):
                value = None
                defined.add(name)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
            case _:
                raise Doubt(statement)
        if name in assignments:
            raise Doubt(name)
        assignments[name] = value
    return {name: value for name, value in assignments.items() if name not in defined}


def _check_enum(cls: enum.EnumMeta, names: Names) -> None:
    if type(cls) is not enum.EnumMeta or not set(cls.__mro__[1:]) <= _ENUMS:
        raise Doubt(cls)
    scope, node = _body(cls, names)
    assigned = _assigned(node)
    if node.decorator_list or any(isinstance(it, ast.FunctionDef) for it in node.body):
        raise Doubt(cls)
    if set(assigned) != set(cls.__members__):
        raise Doubt(cls)
    for name, value in assigned.items():
        if value is None:
            raise Doubt(name)
        if isinstance(value, ast.Call) and names.evaluate(scope, value.func) is enum.auto:
            continue
        if not same(names.evaluate(scope, value), cls.__members__[name].value):
            raise Doubt(name)


def _of_named_tuple(cls: Any, names: Names) -> dict[str, Any]:
    """Return the functions of a named tuple other than the generated ones."""
    defaults = cls._field_defaults
    make: Any = collections.namedtuple
    like = make(cls.__name__, cls._fields, defaults=defaults.values())
    # a copy, because the namespace of a class is cleared with the class
    generated = dict(vars(like))
    scope, node = definition(cls, names)
    assigned: dict[str, ast.expr | None] = {}
    if isinstance(node, ast.ClassDef):
        _body(cls, names)
        if node.decorator_list:
            raise Doubt(cls)
        assigned = _assigned(node)
    members = {}
    for name, member in vars(cls).items():
        if name in cls._fields:
            if (
                type(member) is not type(generated[name])
                or member.__reduce__()[1][0] != generated[name].__reduce__()[1][0]
            ):
                raise Doubt(name)
        elif name in generated and name not in _MACHINERY:
            if not _same_code(member, generated[name]):
                raise Doubt(name)
        else:
            members[name] = member
    for name, default in defaults.items():
        value = assigned.get(name)
        if isinstance(node, ast.ClassDef) and (
            value is None or not same(names.evaluate(scope, value), default)
        ):
            raise Doubt(name)
    return _functions(
        members, {n: v for n, v in assigned.items() if n not in cls._fields}, scope, names
    )


def _of_class(cls: type, names: Names) -> dict[str, Any]:
    """Return the functions of a plain class, or the hand-written ones of a dataclass."""
    if type(cls) is not type:
        raise Doubt(cls)
    scope, node = _body(cls, names)
    assigned, members = _assigned(node), dict(vars(cls))
    if "__dataclass_fields__" in members:
        if len(node.decorator_list) != 1:
            raise Doubt(cls)
        decorator = node.decorator_list[0]
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if names.evaluate(scope, called) is not dataclasses.dataclass:
            raise Doubt(cls)
        _check_fields(cls, assigned, scope, names)
        for name, generated in _generated(cls).items():
            written = any(isinstance(it, ast.FunctionDef) and it.name == name for it in node.body)
            if name in members and not written and not _same_code(members.pop(name), generated):
                raise Doubt(name)
        fields = vars(cls)["__dataclass_fields__"]
        members = {n: m for n, m in members.items() if n not in fields}
        assigned = {n: v for n, v in assigned.items() if n not in fields}
        for name in ("__getstate__", "__setstate__", "__replace__"):
            member = members.pop(name, None)
            if member is not None and member.__code__.co_filename != dataclasses.__file__:
                raise Doubt(name)
    elif node.decorator_list:
        raise Doubt(cls)
    return _functions(members, assigned, scope, names)


def _check_fields(
    cls: Any, assigned: dict[str, ast.expr | None], scope: Scope, names: Names
) -> None:
    """Check that a dataclass's defaults are the same in every process."""
    fields = dataclasses.fields(cls)
    if len(fields) != len(vars(cls)["__dataclass_fields__"]):
        raise Doubt(cls)
    for field in fields:
        if (
            field.default_factory is not dataclasses.MISSING
            and field.default_factory not in _FACTORIES
        ):
            raise Doubt(field.name)
        if field.name not in assigned:  # inherited from a base class, which is checked separately
            continue
        value = assigned[field.name]
        if isinstance(value, ast.Call) and names.evaluate(scope, value.func) is dataclasses.field:
            options = {keyword.arg: keyword.value for keyword in value.keywords}
            if value.args or None in options:
                raise Doubt(field.name)
            options.pop("default_factory", None)
            value = options.pop("default", None)
            if not all(isinstance(it, ast.Constant) for it in options.values()):
                raise Doubt(field.name)
        if value is None:
            if field.default is not dataclasses.MISSING:
                raise Doubt(field.name)
        elif not same(names.evaluate(scope, value), field.default):
            raise Doubt(field.name)


def _generated(cls: Any) -> dict[str, Any]:
    """Return the methods that `dataclass` generates for fields like those of *cls*."""
    fields = [
        (
            field.name,
            object,
            dataclasses.field(**{name: getattr(field, name) for name in _FIELD}),
        )
        for field in dataclasses.fields(cls)
    ]
    params = _params(cls)
    space = {"__post_init__": len} if hasattr(cls, "__post_init__") else {}
    template = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        namespace=space,
        **{
            name: getattr(params, name)
            for name in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
        },
    )
    return {
        name: member
        for name, member in vars(template).items()
        if isinstance(member, types.FunctionType) and name != "__post_init__"
    }


def _same_code(one: Any, other: Any) -> bool:
    """Whether two functions have the same code."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (staticmethod, classmethod)):
        return _same_code(one.__func__, other.__func__)
    if isinstance(one, types.FunctionType):
        codes = [function.__code__ for function in (one, other)]
        names = [(code.co_names, code.co_varnames, code.co_freevars) for code in codes]
        consts = [
            repr([c for c in code.co_consts if not isinstance(c, types.CodeType)]) for code in codes
        ]
        return (
            codes[0].co_code == codes[1].co_code and names[0] == names[1] and consts[0] == consts[1]
        )
    return bool(one == other)


def _functions(
    members: dict[str, Any], assigned: dict[str, ast.expr | None], scope: Scope, names: Names
) -> dict[str, Any]:
    """Return the functions among *members*; all others must be constants or built-in."""
    functions = {}
    for name, member in members.items():
        if name in _ANNOTATE:
            continue
        special = name.startswith("__") and name.endswith("__")
        if isinstance(member, (types.FunctionType, staticmethod, classmethod, property)):
            if special and name not in SPECIAL:
                raise Doubt(name)
            functions[name] = member
        elif name in _MACHINERY or (name == "__hash__" and member is None):
            continue
        elif not isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            value = assigned.get(name)
            if value is None or special or not same(names.evaluate(scope, value), member):
                raise Doubt(name)
    return functions


def check_exception(cls: type, names: Names) -> None:
    """Check that *cls* is a built-in exception, or a user exception without code."""
    for base in cls.__mro__:
        if base in _ERRORS or not base.__flags__ & HEAP_TYPE:
            return
        _, node = _body(base, names)
        assigned = _assigned(node)
        if assigned or node.decorator_list or inspect.isabstract(base):
            raise Doubt(base)
        if any(isinstance(it, ast.FunctionDef) for it in node.body):
            raise Doubt(base)
        if set(vars(base)) - _MACHINERY:
            raise Doubt(base)
