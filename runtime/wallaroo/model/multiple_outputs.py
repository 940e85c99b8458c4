"""What a function that gives several messages may return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wallaroo.model.callers import limited

_SINGLE = (str, bytes, bytearray, memoryview, dict)
"""What can be iterated over, and is one message all the same."""


@limited
def several(function: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """*function*, the computation *name*, returning a list or None, and raising for anything else.

    Example:
        >>> several(str.split, "split")("a b")
        ['a', 'b']
        >>> several(len, "count")("ab")
        Traceback (most recent call last):
            ...
        TypeError: computation_multi 'count' returned the int 2; an iterable of outputs or None is \
due: return [2] if it is one output
    """

    @functools.wraps(function)
    def call(message: Any) -> Any:
        result = function(message)
        return result if type(result) is list else _listed(result, "computation_multi", name)

    return call


@limited
def several_over_state(
    function: Callable[[Any, Any], Any], name: str, *, tells_save: bool
) -> Callable[[Any, Any], Any]:
    """The same for a *function* of message and state, which may tell whether to save, too."""

    @functools.wraps(function)
    def call(message: Any, state: Any) -> Any:
        result = function(message, state)
        if tells_save:
            output, save = pair_of(result)
            return _listed(output, "state_computation_multi", name), save
        return result if type(result) is list else _listed(result, "state_computation_multi", name)

    return call


@limited
def _listed(result: Any, kind: str, name: str) -> list[Any] | None:
    """The messages in *result*: all of them are made here, where what makes them may raise."""
    if result is None:
        return None
    kind_of = type(result)
    is_iterable = hasattr(kind_of, "__iter__") or hasattr(kind_of, "__getitem__")
    if isinstance(result, _SINGLE) or not is_iterable:
        shown = _shown(result)
        msg = (
            f"{kind} {name!r} returned the {kind_of.__name__} {shown}; an iterable of outputs or "
            f"None is due: return [{shown}] if it is one output"
        )
        raise TypeError(msg)
    return list(result)


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
