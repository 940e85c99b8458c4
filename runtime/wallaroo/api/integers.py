"""Integers as arguments."""

from __future__ import annotations

from typing import Any

from wallaroo.errors import WallarooParameterError


def integer(what: str, value: Any) -> int:
    """Return *value*, which a message calls *what*.

    Raises:
        TypeError: *value* is not an integer.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{what} is {value!r}; expected an integer"
        raise TypeError(msg)
    return value


def positive_integer(what: str, value: Any) -> int:
    """Return *value*, as `integer` does.

    Raises:
        TypeError: *value* is not an integer.
        WallarooParameterError: It is not positive.

    Example:
        >>> positive_integer("the count", 5)
        5
    """
    if integer(what, value) < 1:
        msg = f"{what} is {value}; it must be positive"
        raise WallarooParameterError(msg)
    return int(value)
