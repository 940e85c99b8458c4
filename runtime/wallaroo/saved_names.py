r"""The names under which classes of the runtime are saved, independent of their module.

Pickle saves a class by its module and name. State directories and exports outlive the layout of
this package, so classes whose instances are saved there are named as if they were defined here. The
name of this module and the names of the classes in it are part of the format of a state directory
and must never change.

Example:
    >>> import pickle
    >>> pickle.loads(b"cwallaroo.saved_names\nCountEntity\n.")().messages
    0
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_MODULES = ("wallaroo.model.joins", "wallaroo.model.windows")
"""Where the classes are, which register themselves."""


def saved_as(name: str) -> Callable[[type[T]], type[T]]:
    """Decorate a class whose instances are saved; *name* is its name in saved data."""

    def decorate(cls: type[T]) -> type[T]:
        cls.__module__, cls.__qualname__ = __name__, name
        globals()[name] = cls
        return cls

    return decorate


def __getattr__(name: str) -> Any:
    """Return the saved class *name*, importing its module if necessary."""
    if not name.startswith("_"):
        for module in _MODULES:
            importlib.import_module(module)
    try:
        return globals()[name]
    except KeyError:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg) from None
