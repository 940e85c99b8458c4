"""The debugger of `wallaroo explain --debug`."""

from __future__ import annotations

import pdb  # noqa: T100 - what the option is for
from collections.abc import Callable
from typing import Any

_NOT_USER_CODE = ("wallaroo.*", "contextlib", "functools", "threading", "dataclasses", "warnings")
"""Modules through which it passes without stopping."""


class Debugger:
    """Stops in functions of the application; it reads standard input."""

    def __init__(self) -> None:
        self._pdb = _Pdb(skip=_NOT_USER_CODE)

    def stopping_in(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap *call*, so that the debugger stops at the first line of user code in it.

        It raises `KeyboardInterrupt` if the user quits.
        """

        def stopping(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._pdb.runcall(call, *args, **kwargs)
            finally:
                if self._pdb.quits:
                    raise KeyboardInterrupt

        return stopping


class _Pdb(pdb.Pdb):
    quits = False

    def set_quit(self) -> None:
        """Note that the user has quit."""
        super().set_quit()
        self.quits = True
