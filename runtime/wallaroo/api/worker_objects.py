"""Objects that a worker process opens once, for async steps: clients, pools, sessions."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def once_per_worker(
    opening: Callable[[], Coroutine[Any, Any, T]],
) -> Callable[[], Coroutine[Any, Any, T]]:
    """Decorate an `async def` without parameters, whose result every later call returns, too.

    It is for what async steps share, such as the connections of an HTTP client: such objects belong
    to the event loop on which they were opened, and each worker process has one event loop for all
    calls. If opening raises, the next call tries again.

    Raises:
        TypeError: It is not an `async def` without parameters.

    Example:
        >>> @once_per_worker
        ... async def numbers() -> list[int]:
        ...     print("opened")
        ...     return [1, 2, 3]
        >>> async def main() -> bool:
        ...     return await numbers() is await numbers()
        >>> asyncio.run(main())
        opened
        True
    """
    if not inspect.iscoroutinefunction(opening) or inspect.signature(opening).parameters:
        name = getattr(opening, "__name__", repr(opening))
        msg = f"once_per_worker is given {name}; expected an async def without parameters"
        raise TypeError(msg)
    opened: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = {}
    # never emptied of other loops' objects: where a process has been forked, those of the former
    # must not be closed here, and whoever closes loops has few of them

    @functools.wraps(opening)
    async def once() -> T:
        loop = asyncio.get_running_loop()
        found = opened.get(id(loop))
        if found is None or found[0] is not loop or _has_failed(found[1]):
            found = opened[id(loop)] = loop, loop.create_task(opening())
        return await asyncio.shield(found[1])  # a call that is cancelled leaves it to the others

    return once


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
