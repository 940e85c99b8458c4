"""The event loop of a process, on which all async steps run.

It is made for the first call and kept, so that clients with open connections can live on it. It
runs only while calls are awaited. A forked process makes one of its own: what lives on that of its
parent would share connections with the parent.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeVar

from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.user_code.callers import runs_loop

T = TypeVar("T")

_loops: dict[tuple[int, int], asyncio.AbstractEventLoop] = {}
"""By process, and by the thread that awaits calls, of which an engine has one. Those of a parent
process are kept, too: to collect them would close connections."""


@has_role(Role.THREAD)
def run_on_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run *main* on the event loop of this process, and return its result.

    If a loop is running in this thread, as in a notebook, another thread runs it meanwhile.
    """
    owner = os.getpid(), threading.get_ident()
    if asyncio._get_running_loop() is None:  # noqa: SLF001
        return _run(main, owner)
    done: Future[T] = Future()

    def run(caller: FrameType) -> None:  # noqa: ARG001 - see `Role.THREAD`
        try:
            done.set_result(_run(main, owner))
        except BaseException as error:
            done.set_exception(error)

    here = sys._getframe()  # noqa: SLF001
    threading.Thread(target=run, args=(here,), name="async steps", daemon=True).start()
    return done.result()


@runs_loop(asyncio.Handle._run)  # noqa: SLF001
def _run(main: Coroutine[Any, Any, T], owner: tuple[int, int]) -> T:
    loop = _loops.get(owner)
    if loop is None or loop.is_closed():
        loop = _loops[owner] = asyncio.new_event_loop()
    task = loop.create_task(main)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, RuntimeError):
            # user code has raised it outside of a call, or stopped the loop: the calls go on
            if loop.is_closed() or loop.is_running():
                raise
        except BaseException:
            task.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()
            raise
    return task.result()
