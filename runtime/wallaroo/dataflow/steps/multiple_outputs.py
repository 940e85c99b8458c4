"""Checks the results of functions that return any number of messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wallaroo.user_code.callers import time_limited

_SINGLE = (str, bytes, bytearray, memoryview, dict)
"""Iterable types that count as one message."""


@time_limited
def returning_list(function: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """Wrap *function*, the computation *name*, to return a list or None, or raise a TypeError.

    Example:
        >>> returning_list(str.split, "split")("a b")
        ['a', 'b']
        >>> returning_list(len, "count")("ab")
        Traceback (most recent call last):
            ...
        TypeError: computation_multi 'count' returned the int 2; expected an iterable of outputs \
or None: return [2] for one output
    """

    @functools.wraps(function)
    def call(message: Any) -> Any:
        result = function(message)
        return result if type(result) is list else _listed(result, "computation_multi", name)

    return call


@time_limited
def returning_list_over_state(
    function: Callable[..., Any], name: str, *, returns_save: bool
) -> Callable[..., Any]:
    """The same for a *function* of message and state, which may return `(output, save)`."""

    @functools.wraps(function)
    def call(message: Any, state: Any, *timers: Any) -> Any:
        result = function(message, state, *timers)
        if returns_save:
            output, save = pair_of(result)
            return _listed(output, "state_computation_multi", name), save
        return result if type(result) is list else _listed(result, "state_computation_multi", name)

    return call


@time_limited
def _listed(result: Any, kind: str, name: str) -> list[Any] | None:
    """Return the messages in *result*; iterating it here attributes its exceptions to the step."""
    if result is None:
        return None
    kind_of = type(result)
    is_iterable = hasattr(kind_of, "__iter__") or hasattr(kind_of, "__getitem__")
    if isinstance(result, _SINGLE) or not is_iterable:
        text = _shortened_repr(result)
        msg = (
            f"{kind} {name!r} returned the {kind_of.__name__} {text}; expected an iterable of "
            f"outputs or None: return [{text}] for one output"
        )
        raise TypeError(msg)
    return list(result)


def pair_of(result: Any) -> Any:
    """Return *result* if it is a pair, as a state computation without `state=` returns.

    Raises:
        TypeError: It is not a pair.

    Example:
        >>> pair_of("ab")
        Traceback (most recent call last):
            ...
        TypeError: expected (output, save), but got 'ab'; return both, or declare the ...
    """
    if isinstance(result, (tuple, list)) and len(result) == 2:  # noqa: PLR2004
        return result
    msg = (
        f"expected (output, save), but got {_shortened_repr(result)}; return both, or declare the "
        "computation with state= and return only the output"
    )
    raise TypeError(msg)


def _shortened_repr(result: Any) -> str:
    text = repr(result)
    return text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004
