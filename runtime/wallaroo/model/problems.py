"""What is wrong with an application, collected to be told in one go."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from wallaroo.api import functions
from wallaroo.api.places import Place, place_of

_DECORATORS: dict[type, str] = {
    functions.Decoder: "decoder",
    functions.Computation: "computation",
    functions.MultiComputation: "computation_multi",
    functions.StateComputation: "state_computation",
    functions.MultiStateComputation: "state_computation_multi",
    functions.KeyExtractor: "partition",
    functions.Encoder: "encoder",
}


class Problems:
    """Collects sentences, each with the line of user code that it is about.

    Example:
        >>> problems = Problems()
        >>> problems.add(Place("application.py", 7), "a step before the first new_pipeline(…)")
        >>> problems.found
        ['application.py:7: a step before the first new_pipeline(…)']
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, place: Place, sentence: str) -> None:
        """Note that *sentence* holds at *place*."""
        self.found.append(f"{place}: {sentence}")

    def check_arity(self, function: Any, count: int, label: str, takes: str) -> None:
        """Note it if *function*, called *label*, cannot be called with *count* arguments."""
        try:
            inspect.signature(function).bind(*[None] * count)
        except TypeError as error:
            self.add(place_of(function), f"{label} is called with ({takes}): {error}")
        except ValueError:
            return  # a builtin that does not tell its signature


def due_instance(thing: Any, *methods: str) -> str | None:
    """What to say where *thing* is a class, and its *methods* need an instance; else None.

    Example:
        >>> class Upper:
        ...     def encode(self, text):
        ...         return text.upper()
        >>> due_instance(Upper, "encode")
        'the class Upper is given, and an instance is due: Upper()'
        >>> due_instance(Upper(), "encode")
    """
    if not inspect.isclass(thing):
        return None
    if not any(inspect.isfunction(inspect.getattr_static(thing, m, None)) for m in methods):
        return None
    return f"the class {thing.__name__} is given, and an instance is due: {thing.__name__}()"


def named(thing: Any) -> str:
    """The name of a function or class, or what else tells *thing*."""
    return getattr(thing, "__name__", None) or repr(thing)


def described(thing: Any) -> str:
    """What *thing* is, for a sentence.

    Example:
        >>> described(7), described(int), described(len)
        ('7', 'the class int', 'the function len')
    """
    if thing is None or isinstance(thing, (str, int, float, Sequence)):
        return repr(thing)
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    name = getattr(thing, "__name__", None)
    if type(thing) in _DECORATORS:
        return f"the @{_DECORATORS[type(thing)]} {name or type(thing.function).__name__}"
    if inspect.isfunction(thing) and thing.__module__ == functions.__name__:
        decorator = thing.__qualname__.partition(".")[0]
        if decorator != name:  # what it returns, before that has got the function
            return f"what @{decorator} gives without its arguments; write @{decorator}(…)"
    return f"the function {name}" if name else f"an object of class {type(thing).__name__}"
