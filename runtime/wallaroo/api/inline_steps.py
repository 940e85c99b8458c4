"""Steps of undecorated functions: `Pipeline.map`, `filter`, `flat_map`, `split` and `inspect`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from wallaroo.api.functions import Computation, Decorated, MultiComputation
from wallaroo.api.places import Place

_NOT_TESTABLE = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


def mapping(function: Any, name: str | None, place: Place) -> Computation[Any, Any]:
    """The step of `map`.

    Raises:
        TypeError: *function* is not a function, or is decorated.
    """
    return Computation(function, _name("map", function, name, place))


def flat_mapping(function: Any, name: str | None, place: Place) -> MultiComputation[Any, Any]:
    """The step of `flat_map`; raises what `mapping` does."""
    return MultiComputation(function, _name("flat_map", function, name, place))


def filtering(predicate: Any, name: str | None, place: Place) -> Any:
    """The step of `filter`.

    Raises:
        TypeError: *predicate* is not a function, or is one whose result is always true.
    """

    def keep(message: Any) -> Any:
        return message if _is_true(predicate(message)) else None

    return _testing("filter", keep, predicate, name, place)


def splitting(predicate: Any, name: str | None, place: Place) -> tuple[Any, Any, Any]:
    """The step before both sides of `split`, and the first one of each: true, false.

    Raises:
        TypeError: *predicate* is not a function, or is one whose result is always true.
    """

    def divide(message: Any) -> tuple[bool, Any]:
        return _is_true(predicate(message)), message

    def true(divided: tuple[bool, Any]) -> Any:
        return divided[1] if divided[0] else None

    def false(divided: tuple[bool, Any]) -> Any:
        return None if divided[0] else divided[1]

    step = _testing("split", divide, predicate, name, place)
    sides = [Computation(side, f"{step.name}: {side.__name__}") for side in (true, false)]
    return step, sides[0], sides[1]


def inspecting(show: Any, name: str | None, place: Place) -> Computation[Any, Any]:
    """The step of `inspect`.

    Raises:
        TypeError: *show* is not a function, or is one whose result cannot be shown.
    """

    def inspect(message: Any) -> Any:
        text = str(show(message))
        with contextlib.suppress(OSError, ValueError):  # what cannot be printed is lost alone
            print(text)
        return message

    return _testing("inspect", inspect, show, name or f"inspect at {place}", place)


def _testing(
    kind: str, made: Callable[[Any], Any], predicate: Any, name: str | None, place: Place
) -> Computation[Any, Any]:
    """The step *made* of a function, in whose place it is."""
    name = _name(kind, predicate, name, place)
    if any(is_kind(predicate) for is_kind in _NOT_TESTABLE):
        due = "is async or contains yield; write a function with return"
        msg = f"{kind} is given {predicate.__name__}, which {due}"
        raise TypeError(msg)
    return Computation(functools.wraps(predicate)(made), name)


def _name(kind: str, function: Any, name: str | None, place: Place) -> str:
    """The name of a step: by default that of its function, or where it is if it has none."""
    if not callable(function) or isinstance(function, Decorated):
        is_step = isinstance(function, Decorated) and kind in {"map", "flat_map"}
        due = "a function without a decorator, or write to(…)" if is_step else "a function"
        msg = f"{kind} is given {_shown(function)}; expected {due} of a message"
        raise TypeError(msg)
    if name is None:
        own = getattr(function, "__name__", "<lambda>")
        return f"{kind} at {place}" if own == "<lambda>" else own
    return name


def _shown(function: Any) -> str:
    if isinstance(function, Decorated):
        name = getattr(function, "__name__", repr(function))
        return f"the {type(function).__name__} {name}"
    return repr(function)


def _is_true(result: Any) -> bool:
    """Whether the result of a predicate is true.

    Raises:
        TypeError: It is one that always is, which nobody means.
    """
    if inspect.iscoroutine(result) or isinstance(result, Generator | AsyncGenerator):
        if inspect.iscoroutine(result):
            result.close()
        msg = f"the predicate returned a {type(result).__name__}, which is always true"
        raise TypeError(msg)
    return bool(result)
