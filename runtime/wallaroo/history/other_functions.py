"""Functions that return something else each time, and classes of random numbers without a seed."""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import uuid
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from wallaroo.api import repeatable

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_OF_MODULES = (
    (time, [clock + unit for clock in _CLOCKS for unit in ("", "_ns")]),
    (os, ["urandom", "getrandom", "getpid", "getppid"]),
    (uuid, ["uuid1", "uuid4"]),
)
_ALWAYS = {id(vars(of)[name]) for of, names in _OF_MODULES for name in names if name in vars(of)}
_BY_ARGUMENTS = {
    **{id(function): 1 for function in (time.localtime, time.gmtime, time.ctime, time.asctime)},
    id(time.strftime): 2,
}
"""With how many arguments they return the same each time."""


def is_another(value: Any, arguments: int | None, *, once: bool) -> bool:
    """Whether *value* is such a function or class.

    Args:
        value: A function, or anything else.
        arguments: How many it is called with that are not None; None if it is passed on.
        once: Whether it is called when the application is loaded: then only generators count.

    Example:
        >>> is_another(time.time, 0, once=False), is_another(time.time, 0, once=True)
        (True, False)
        >>> is_another(time.ctime, 0, once=False), is_another(time.ctime, 1, once=False)
        (True, False)
    """
    if arguments is not None:
        needed = _BY_ARGUMENTS.get(id(value), 0)
        if _is_without_seed(value, arguments, once=once) or (arguments < needed and not once):
            return True
        if once:
            return False
    if not issubclass(type(value), (FunctionType, BuiltinFunctionType, MethodType)):
        return False
    owner = getattr(value, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        return value.__name__ in {"now", "utcnow", "today"}
    shared = (getattr(random, "_inst", None), _of_numpy("mtrand", "_rand"))
    of_random = isinstance(owner, random.SystemRandom) or any(owner is one for one in shared if one)
    return of_random or id(value) in _ALWAYS or value.__module__ == "secrets"


def _is_without_seed(value: Any, arguments: int, *, once: bool) -> bool:
    if value is random.SystemRandom or (once and value is repeatable.rng):
        return True
    makers = (random.Random, _of_numpy("", "default_rng"), _of_numpy("", "RandomState"))
    return value is not None and not arguments and any(value is one for one in makers)


def _of_numpy(module: str, name: str) -> Any:
    """What has this *name* in a module of `numpy.random`, if that is loaded."""
    return getattr(sys.modules.get(f"numpy.random.{module}".rstrip(".")), name, None)


def attribute(value: Any, name: str) -> Any:
    """The attribute of a module, class or generator; those of others may do anything."""
    if not issubclass(type(value), (ModuleType, type, random.Random)):
        return None
    try:
        return getattr(value, name, None)
    except Exception:  # of a module that loads its parts when they are asked for
        return None
