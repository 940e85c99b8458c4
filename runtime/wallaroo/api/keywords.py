"""Wallaroo's own names for keyword arguments, beside those of this package."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def also_called(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take keyword arguments by other names, too.

    The generations of Wallaroo call one argument by several names; applications that give it by
    name run unmodified.

    Args:
        names: For each other name, the argument that it stands for.

    Example:
        >>> @also_called(state_class="state", state_builder="state")
        ... def step(computation, state):
        ...     return state
        >>> step("count", state_class=dict)
        <class 'dict'>
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            for other in names.keys() & kwargs.keys():
                if names[other] in kwargs:
                    msg = f"{function.__name__}(): {other} and {names[other]} are one argument"
                    raise TypeError(msg)
                kwargs[names[other]] = kwargs.pop(other)
            return function(*args, **kwargs)

        return call

    return decorate
