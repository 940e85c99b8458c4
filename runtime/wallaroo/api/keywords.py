"""Aliases of keyword arguments, as named in earlier Wallaroo versions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def keyword_aliases(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function accept keyword arguments under additional names.

    The generations of Wallaroo have different names for some arguments; with aliases, applications
    of all generations run unmodified.

    Args:
        names: The argument that each alias stands for.

    Example:
        >>> @keyword_aliases(state_class="state", state_builder="state")
        ... def step(computation, state):
        ...     return state
        >>> step("count", state_class=dict)
        <class 'dict'>
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            for alias in names.keys() & kwargs.keys():
                if names[alias] in kwargs:
                    msg = (
                        f"{function.__name__}(): {alias} is an alias of {names[alias]}; "
                        "pass only one of them"
                    )
                    raise TypeError(msg)
                kwargs[names[alias]] = kwargs.pop(alias)
            return function(*args, **kwargs)

        return call

    return decorate
