r"""The names under which Wallaroo's own classes are saved, wherever their code lies.

Pickle saves a class by the name of its module and its own name. State directories and exports
outlive the layout of this package, so a class whose objects are saved in them is named as if it
were defined here. The name of this module and the names that classes have in it are part of the
format of a state directory: none of them may change.

Example:
    >>> import pickle
    >>> pickle.loads(b"cwallaroo.saved_names\nCountEntity\n.")().messages
    0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def saved_as(name: str) -> Callable[[type[T]], type[T]]:
    """Decorates a class whose objects are saved; *name* is its name in saved data."""

    def named(kind: type[T]) -> type[T]:
        kind.__module__, kind.__qualname__ = __name__, name
        globals()[name] = kind
        return kind

    return named


def __getattr__(name: str) -> Any:
    """The class called *name*, in a process that has not imported its module yet."""
    if not name.startswith("_"):
        from wallaroo.model import windows  # noqa: F401  (its classes enter themselves)
    try:
        return globals()[name]
    except KeyError:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg) from None
