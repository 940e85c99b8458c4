"""What a function that gives several messages may return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_SINGLE = (str, bytes, bytearray, memoryview, dict)
"""What can be iterated over, and is one message all the same."""


def several(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """*function*, raising where it returns one message in the place of a list of them.

    Example:
        >>> several(str.split)("a b")
        ['a', 'b']
        >>> several(str.upper)("ab")
        Traceback (most recent call last):
            ...
        TypeError: expected a list of messages or None, got the str 'AB'; return ['AB'] ...
    """

    @functools.wraps(function)
    def call(message: Any) -> Any:
        result = function(message)
        if type(result) is not list and isinstance(result, _SINGLE):
            _refuse(result)
        return result

    return call


def several_over_state(
    function: Callable[[Any, Any], Any], *, tells_save: bool
) -> Callable[[Any, Any], Any]:
    """The same for a *function* of message and state, which may tell whether to save, too."""

    @functools.wraps(function)
    def call(message: Any, state: Any) -> Any:
        result = function(message, state)
        if tells_save:
            output, save = pair_of(result)
            if isinstance(output, _SINGLE):
                _refuse(output)
            return output, save
        if type(result) is not list and isinstance(result, _SINGLE):
            _refuse(result)
        return result

    return call


def pair_of(result: Any) -> Any:
    """*result*, if it is the pair that a state computation without `state=` returns.

    Raises:
        TypeError: It is not.

    Example:
        >>> pair_of("ab")
        Traceback (most recent call last):
            ...
        TypeError: expected (output, save), got 'ab'; return both, or declare the computation ...
    """
    if isinstance(result, (tuple, list)) and len(result) == 2:  # noqa: PLR2004
        return result
    msg = (
        f"expected (output, save), got {_shown(result)}; return both, or declare the computation "
        "with state=, which returns the output alone"
    )
    raise TypeError(msg)


def _shown(result: Any) -> str:
    shown = repr(result)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"  # noqa: PLR2004


def _refuse(result: Any) -> None:
    shown = _shown(result)
    msg = (
        f"expected a list of messages or None, got the {type(result).__name__} {shown}; "
        f"return [{shown}] if it is one message"
    )
    raise TypeError(msg)
