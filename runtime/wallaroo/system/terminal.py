"""Input typed at a terminal during a live display."""

from __future__ import annotations

import os
import termios
from typing import Any


def is_in_foreground(terminal: int) -> bool:
    """Whether what is typed at *terminal*, a file descriptor, is for this process.

    False for a job in the background of a shell, and for what is no terminal.
    """
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


class Echo:
    """Keeps what is typed from being shown in the middle of something else.

    Signals by key, such as Ctrl-C, work as always, and what is typed is kept for whoever reads it.

    Args:
        terminal: A file descriptor.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._before: list[Any] | None = None
        """The terminal's settings with echo; None while they are in effect."""

    def stop(self) -> None:
        """Show nothing of what is typed, if this process is in the foreground."""
        if self._before is not None or not is_in_foreground(self._terminal):
            return
        try:
            before = termios.tcgetattr(self._terminal)
            silent = [*before]
            silent[3] &= ~termios.ECHO
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, silent)
        except termios.error:
            return
        self._before = before

    def resume(self) -> None:
        """Show it again; a shell has done so if this process is not in the foreground."""
        before, self._before = self._before, None
        if before is None or not is_in_foreground(self._terminal):
            return
        try:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, before)
        except termios.error:
            return
