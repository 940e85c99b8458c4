"""Exceptions of user code, whatever their class: they affect one message, not those after it.

Only the `KeyboardInterrupt` of Ctrl-C passes through in interactive processes.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable
from typing import Any

from wallaroo.api.places import is_application
from wallaroo.user_code.callers import time_limited

_LOCAL = re.compile(r"(\w+)\.<locals>\.([\w<>]+?)'?(?: at 0x|>*$)")
"""In pickle's message about a class or function that is defined in a function: both names."""


class Raised(Exception):
    """User code raised a non-`Exception`, such as `asyncio.CancelledError`, which is the cause."""


def pass_interrupt(error: BaseException) -> None:
    """Re-raise *error* if it is the exception of Ctrl-C, not one that the application raises."""
    if type(error) is KeyboardInterrupt and not _is_of_a_raise_statement(error):
        raise error


def _is_of_a_raise_statement(error: BaseException) -> bool:
    """Whether a `raise` of the application raised *error*: a signal comes at other instructions."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    instruction = dis.opname[code.co_code[trace.tb_lasti]]
    return instruction == "RAISE_VARARGS" and is_application(code.co_filename)


@time_limited
def raising_exceptions(function: Callable[..., Any], *, interruptible: bool) -> Callable[..., Any]:
    """Wrap *function* to raise `Raised` instead of any non-`Exception` except `SystemExit`.

    Args:
        function: A function of the application.
        interruptible: Whether the exception of Ctrl-C passes through.
    """

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit):
            raise
        except BaseException as error:
            if interruptible:
                pass_interrupt(error)
            raise Raised from error

    return call


def raised(error: BaseException) -> BaseException:
    """Return the exception of user code that *error* is or wraps."""
    cause = error.__cause__
    return cause if isinstance(error, Raised) and cause is not None else error


def describe_error(error: BaseException) -> str:
    """Return class and text of *error*, as in a traceback.

    Example:
        >>> describe_error(ValueError("no")), describe_error(StopIteration())
        ('ValueError: no', 'StopIteration')
    """
    error = raised(error)
    try:
        text = str(error)
    except BaseException as unprintable:
        pass_interrupt(unprintable)
        text = f"(its __str__ raises {type(unprintable).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_unpicklable(error: BaseException) -> str:
    """Return what *error*, of pickle, says; the same on all versions of Python for local names.

    Example:
        >>> describe_unpicklable(AttributeError("Can't pickle local object 'made.<locals>.Inner'"))
        'Inner is defined inside the function made; define it at the top level of a module'
    """
    text = describe_error(error)
    return describe_local(text) or text


def describe_local(text: str) -> str | None:
    """Return what is wrong with the class or function that *text* names, if a function defines it.

    Example:
        >>> describe_local("made.<locals>.Inner")
        'Inner is defined inside the function made; define it at the top level of a module'
    """
    if (local := _LOCAL.search(text)) is None:
        return None
    function, name = local.groups()
    where = f"{name} is defined inside the function {function}"
    return f"{where}; define it at the top level of a module"


def short_repr(value: Any, limit: int = 100) -> str:
    """Return the first *limit* characters of the repr of *value*, even if `__repr__` raises."""
    try:
        return repr(value)[:limit]
    except BaseException as unprintable:
        pass_interrupt(unprintable)
        error = describe_error(unprintable)
        return f"<{type(value).__name__} whose __repr__ raises {error}>"[:limit]
