"""Connections to an address behind which several processes may be, not all of which listen.

While a gateway takes over from another one on Kubernetes, their Service has the addresses of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

_ATTEMPTS = 8
"""With two addresses, one in 256 calls is refused each time."""
_PAUSE_S = 0.02


def connected(connect: Callable[[], _T]) -> _T:
    """The result of *connect*, which is called again if the connection is refused.

    Raises:
        OSError: It cannot connect.

    Example:
        >>> answers = iter([ConnectionRefusedError(), "connected"])
        >>> def connect() -> str:
        ...     answer = next(answers)
        ...     if isinstance(answer, OSError):
        ...         raise answer
        ...     return answer
        >>> connected(connect)
        'connected'
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return connect()
        except ConnectionRefusedError:
            time.sleep(_PAUSE_S)
    return connect()
