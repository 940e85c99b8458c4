"""A terminal with a shell in it, as somebody sits at one."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\(B")
_DONE = "-- done --"
_KEYS = {"^C": b"\x03", "^D": b"\x04"}
_SHELL = "bash --norc --noprofile --noediting -i"


class Terminal:
    """An interactive bash on a pseudo-terminal; a context manager that ends all that runs in it.

    Args:
        directory: Where the shell is at first.
        environment: Its environment.
        patience_s: How long anything may take, in seconds.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str], patience_s: float = 80.0
    ) -> None:
        self._patience_s = patience_s
        self._told = ""
        self._read = 0
        self._changed = threading.Condition()
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (50, 250))  # wide enough for each line to stay one
        # the first terminal that the leader of a session opens is the session's
        self._shell = subprocess.Popen(
            ["sh", "-c", f"exec {_SHELL} <>{os.ttyname(slave)} >&0 2>&0"],
            cwd=directory,
            env={**environment, "PS1": "", "PS2": "", "VIRTUAL_ENV_DISABLE_PROMPT": "1"},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        try:
            self.call("stty -echo")
        except BaseException:
            self._end()
            raise
        finally:
            os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end()

    def type(self, line: str) -> None:
        """Type *line* and return; ^C and ^D are the keys."""
        os.write(self._master, _KEYS.get(line) or line.encode() + b"\n")

    def call(self, command: str) -> str:
        """Type *command* and wait for its end; returns what was shown meanwhile.

        Raises:
            AssertionError: It failed, or took too long.
        """
        start = self._read = len(self._told)
        self.type(command)
        self.type(f"echo {_DONE[:4]}'{_DONE[4:]}' $?")
        status = self.wait_for(rf"^{_DONE} (\d+)$")
        shown = self._told[start : self._told.rindex(_DONE)]
        assert status[1] == "0", f"{command} ended with {status[1]}:\n{shown}"
        return shown

    def wait_for(self, line: str) -> re.Match[str]:
        """Wait until a line behind those waited for before matches the pattern *line*."""
        give_up = time.monotonic() + self._patience_s
        pattern = re.compile(line, re.MULTILINE)
        with self._changed:
            while (found := pattern.search(self._told, self._read)) is None:
                left = give_up - time.monotonic()
                assert left > 0, f"{line} did not come:\n{self._told[self._read :]}"
                self._changed.wait(left)
        self._read = found.end()
        return found

    def _end(self) -> None:
        for process in _processes_of(self._shell.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._shell.wait(self._patience_s)
        self._reader.join(self._patience_s)
        os.close(self._master)

    def _follow(self) -> None:
        rest = b""
        while True:
            try:
                rest += os.read(self._master, 1 << 16)
            except OSError:
                return
            whole, newline, rest = rest.rpartition(b"\n")
            with self._changed:
                self._told += _as_shown((whole + newline).decode())
                self._changed.notify_all()


def _processes_of(session: int) -> Iterator[int]:
    """Ids of the processes that belong to *session*."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                yield int(stat.parent.name)


def _as_shown(text: str) -> str:
    """*text* as it stands on the screen: without colours, each line as it was last written."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2].rstrip() for line in lines)
