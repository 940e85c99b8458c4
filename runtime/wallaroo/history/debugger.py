"""The debuggers of `wallaroo explain --debug`: pdb, or one that attaches."""

from __future__ import annotations

import os
import pdb  # noqa: T100 - what the option is for
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.history.changes import Debugs

_NOT_USER_CODE = ("wallaroo.*", "contextlib", "functools", "threading", "dataclasses", "warnings")
"""Modules through which it passes without stopping."""


class Debugger(ABC):
    """Stops in functions of the application.

    Args:
        debugs: Whether it stops in those that a message, or the clock, reaches.
    """

    def __init__(self, debugs: Debugs) -> None:
        self.debugs = debugs
        self._pdb = _Pdb(skip=_NOT_USER_CODE)

    @abstractmethod
    def stopping_in(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap *call*, so that the debugger stops at the first line of user code in it."""


class TerminalDebugger(Debugger):
    """pdb, which reads standard input."""

    def stopping_in(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """See `Debugger`; raises `KeyboardInterrupt` if the user quits."""

        def stopping(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._pdb.runcall(call, *args, **kwargs)
            finally:
                if self._pdb.quits:
                    raise KeyboardInterrupt

        return stopping


class AttachedDebugger(Debugger):
    """One that attaches, such as that of an editor; nothing stops while none is attached.

    Args:
        debugs: See `Debugger`.
        port: Port of the loopback address at which it attaches; 0 to let the system choose.
        on_waiting: Called with host and port before it waits for one.

    Raises:
        UsageError: debugpy is not installed.
        RuntimeFailure: It cannot listen.
    """

    def __init__(self, debugs: Debugs, port: int, on_waiting: Callable[[str, int], None]) -> None:
        super().__init__(debugs)
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # or it prints some lines
        try:
            self._debugpy: Any = import_module("debugpy")
        except ImportError as error:
            msg = "--debug-port requires debugpy: install it with `pip install debugpy`"
            raise UsageError(msg) from error
        try:
            host, port = self._debugpy.listen(("127.0.0.1", port))
        except (OSError, RuntimeError) as error:
            msg = f"debugpy cannot listen on 127.0.0.1:{port}: {error}; choose another --debug-port"
            raise RuntimeFailure(msg) from error
        self._pydevd: Any = import_module("pydevd")  # which debugpy brings
        on_waiting(host, port)
        self._debugpy.wait_for_client()
        self._debugpy.trace_this_thread(False)  # what is between the calls is not slowed down

    def stopping_in(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """See `Debugger`."""

        def stop_in_user_code(frame: FrameType, event: str, _argument: object) -> None:
            name = str(frame.f_globals.get("__name__"))
            if event != "call" or self._pdb.is_skipped_module(name):
                return
            sys.setprofile(None)
            if self._debugpy.is_client_connected():
                self._pydevd.settrace(
                    suspend=True,
                    trace_only_current_thread=True,
                    patch_multiprocessing=False,
                    notify_stdin=False,
                    stop_at_frame=frame,
                )

        def stopping(*args: Any, **kwargs: Any) -> Any:
            sys.setprofile(stop_in_user_code)
            try:
                return call(*args, **kwargs)
            finally:
                sys.setprofile(None)
                self._debugpy.trace_this_thread(False)

        return stopping


class _Pdb(pdb.Pdb):
    quits = False

    def set_quit(self) -> None:
        """Note that the user has quit."""
        super().set_quit()
        self.quits = True
