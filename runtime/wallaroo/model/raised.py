"""What user code raises, whatever its class: it concerns one message, and not those behind it.

Only what Ctrl-C raises, `KeyboardInterrupt` itself, goes through where a person may press it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wallaroo.model.callers import limited


class Raised(Exception):
    """User code raised what is no `Exception`, such as `asyncio.CancelledError`: its cause."""


def pass_interrupt(error: BaseException) -> None:
    """Raise *error* again if it is what Ctrl-C raises."""
    if type(error) is KeyboardInterrupt:
        raise error


@limited
def raising_exceptions(function: Callable[..., Any], *, interruptible: bool) -> Callable[..., Any]:
    """*function*, raising `Raised` where it raises neither an `Exception` nor `SystemExit`.

    Args:
        function: A function of the application.
        interruptible: Whether what Ctrl-C raises goes through.
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
    """What user code raised, of which *error* tells."""
    cause = error.__cause__
    return cause if isinstance(error, Raised) and cause is not None else error


def told(error: BaseException) -> str:
    """Class and text of *error*, for people.

    Example:
        >>> told(ValueError("no"))
        'ValueError: no'
    """
    error = raised(error)
    try:
        text = str(error)
    except BaseException as unprintable:
        pass_interrupt(unprintable)
        text = f"(its text cannot be had: {type(unprintable).__name__})"
    return f"{type(error).__name__}: {text}"
