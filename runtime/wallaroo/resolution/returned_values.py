"""The values that functions of an application return, by their source code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

_OTHERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def returned_values(function: Any) -> list[ast.expr] | None:
    """Return the expressions of the `return` statements of *function*, without `None`.

    It is None if that is unknown, and for a function that ends by raising or contains yield.

    Example:
        >>> returned_values(len) is None
        True
    """
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
        return None
    try:
        (defined,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):  # made by exec, or in the middle of a line
        return None
    if not isinstance(defined, ast.FunctionDef) or isinstance(defined.body[-1], ast.Raise):
        return None
    if defined.name != function.__name__:  # a lambda in a call that decorates another function
        return None
    values = [node.value for node in _within(defined) if isinstance(node, ast.Return)]
    return [one for one in values if one is not None and not _is_none(one)]


def is_made_of(value: ast.expr, name: str) -> bool:
    """Whether *value* is the variable *name*, or what a method of it returns.

    Example:
        >>> [is_made_of(ast.parse(text).body[0].value, "seen") for text in ("seen", "seen.add(1)")]
        [True, True]
        >>> is_made_of(ast.parse("seen + [1]").body[0].value, "seen")
        False
    """
    while isinstance(value, (ast.Call, ast.Attribute)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id == name


def _within(defined: ast.AST) -> Iterator[ast.AST]:
    """The statements of a function, without those of functions in it."""
    for node in ast.iter_child_nodes(defined):
        if not isinstance(node, _OTHERS):
            yield node
            yield from _within(node)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
