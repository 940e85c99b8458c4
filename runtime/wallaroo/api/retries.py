"""Retries: a policy for computations that may fail for a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wallaroo.api.durations import AnyDuration, milliseconds, not_negative_ns
from wallaroo.api.integers import positive_integer
from wallaroo.errors import WallarooParameterError

_BACKOFF = milliseconds(100)


@dataclass(frozen=True)
class Retries:
    """A policy for failed calls; created by `retries`."""

    times: int
    """Attempts after the first one."""
    backoff_ns: int
    """Pause before the second attempt, in nanoseconds; it doubles before each further one."""
    on: tuple[type[Exception], ...]
    """Exceptions after which to try again."""

    def pause_s(self, attempt: int) -> float:
        """The pause after the failed *attempt*, the first of which is 0, in seconds.

        Example:
            >>> [retries(3).pause_s(attempt) for attempt in range(3)]
            [0.1, 0.2, 0.4]
        """
        return float(self.backoff_ns * 2**attempt) / 1e9


def retries(
    times: int,
    backoff: AnyDuration | Literal[0] = _BACKOFF,
    on: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> Retries:
    """Declare that a computation is tried again before its message becomes a dead letter.

    All attempts and the pauses between them together are subject to the time limit of a call
    (`--function-timeout`). While they last, the messages that follow in the same partition wait, so
    the order is kept.

    Args:
        times: Number of attempts after the first one, at least 1.
        backoff: Pause before the second attempt: a timedelta, or the result of `milliseconds` or a
            similar function. It doubles before each further one.
        on: Class, or tuple of classes, of the exceptions after which to try again.

    Raises:
        TypeError: An argument has another type.
        WallarooParameterError: The number is not positive, the pause is negative or has no unit,
            or there are no exceptions.

    Example:
        >>> import wallaroo
        >>> calls = []
        >>> @wallaroo.computation(name="ask", retry=retries(3, on=ConnectionError))
        ... def ask(question):
        ...     calls.append(question)
        ...     return len(question)
        >>> ask("why?")
        4
    """
    positive_integer("the number of retries", times)
    backoff_ns = not_negative_ns("backoff", backoff)
    kinds = on if isinstance(on, tuple) else (on,)
    if not kinds:
        msg = "on is (), so nothing is tried again; name a class of exceptions, or leave it out"
        raise WallarooParameterError(msg)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            msg = f"on contains {kind!r}; expected classes of exceptions, such as ConnectionError"
            raise TypeError(msg)
    return Retries(times, backoff_ns, kinds)
