"""Calls in an application that return something else each time: a likely cause of differences."""

from __future__ import annotations

import datetime
import dis
import inspect
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from wallaroo.api.places import Place, is_application
from wallaroo.dataflow.guards import guarded
from wallaroo.model.application import Application

_FUNCTIONS = (time.time, time.time_ns, uuid.uuid1, uuid.uuid4, os.urandom, os.getrandom)
_SETUP = "application_setup"
"""The function whose calls count once."""


def other_calls(application: Application) -> Iterator[tuple[str, Place]]:
    """Yield such calls in the modules of its functions, and where they are.

    Only what a module names by its globals is found, as in `time.time()` after `import time`.
    """
    for module in _modules(application):
        try:
            code = compile(Path(str(module.__file__)).read_bytes(), str(module.__file__), "exec")
        except (OSError, SyntaxError, ValueError):
            continue
        for function in _functions_in(code):
            yield from _calls(function, vars(module))


def _modules(application: Application) -> list[ModuleType]:
    """The modules of functions of *application*, and those of it that these have imported."""
    names = dict[str, None]()

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        names[getattr(inspect.unwrap(function), "__module__", None) or ""] = None
        return function

    guarded(application, note)
    found = [sys.modules[name] for name in names if name in sys.modules]
    for module in tuple(found):
        found += [one for one in vars(module).values() if isinstance(one, ModuleType)]
    found = [one for one in found if is_application(getattr(one, "__file__", None) or "<none>")]
    return list(dict.fromkeys(found))


def _functions_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_name != _SETUP:
            yield constant
            yield from _functions_in(constant)


def _calls(code: CodeType, names: dict[str, Any]) -> Iterator[tuple[str, Place]]:
    value, path, line = None, "", code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and value is not None:
            value, path = getattr(value, instruction.argval, None), f"{path}.{instruction.argval}"
        else:
            is_global = instruction.opname == "LOAD_GLOBAL"
            path = instruction.argval if is_global else ""
            value = names.get(path) if is_global else None
        if instruction.positions is not None:
            line = instruction.positions.lineno or line
        if value is not None and _is_another_each_time(value):
            yield path, Place(code.co_filename, line)


def _is_another_each_time(function: Any) -> bool:
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if owner in (datetime.datetime, datetime.date):
        return name in ("now", "utcnow", "today")
    of_random = owner is getattr(random, "_inst", random)
    of_secrets = getattr(function, "__module__", "") == "secrets"
    return of_random or of_secrets or function in _FUNCTIONS
