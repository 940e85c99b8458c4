"""Command lines of `wallaroo explain` for a run, and what they print."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wallaroo.dataflow.results import KEY_LENGTH
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.store import DeadLetter
from wallaroo.loading.loader import ApplicationRef
from wallaroo.system.printable import printable_lines, shown_time

LIMIT_S = 60.0
"""Seconds after which it is ended."""
_MOST_MEMORY = 2 * 1024**3
"""Bytes of memory that it may have; what is beyond fails in it."""
_MOST_FILE = 1024**3
"""Bytes of a file that it may write, such as a segment of an archive."""
_MOST_SHOWN = 1024**2
"""Bytes that are shown of what it prints."""
_MOST_NOTES = 4096
"""Bytes that are shown of its notes, the last ones."""
_LOWEST_PRIORITY = 19
_PLAIN = re.compile(r"([^\"$`\\!]|\\\w)*")
"""What a shell takes as it is between double quotes."""


def key_argument(key: str) -> str:
    """*key* as an argument that is not taken for an option, and shows what it is.

    Example:
        >>> key_argument("ada"), key_argument("-5"), key_argument("-x")
        ('ada', '-5', "'-x'")
    """
    is_option = key.startswith("-") and not key[1:2].isdecimal()
    return repr(key) if is_option or not key.isprintable() else key


def shell_line(arguments: Sequence[str]) -> str:
    """*arguments* as a command line, with quotes that can be read.

    Example:
        >>> print(shell_line(["explain", "a b", "'it'", "$'"]))
        explain 'a b' "'it'" '$'"'"''
    """
    return " ".join(
        f'"{one}"' if "'" in one and _PLAIN.fullmatch(one) else shlex.quote(one)
        for one in arguments
    )


def of_letter(letter: DeadLetter) -> list[str] | None:
    """The arguments that explain the key of *letter* up to its message; None if it is not known."""
    if letter.key is None or len(letter.key) >= KEY_LENGTH:  # or it is only the start of a key
        return None
    until = shown_time(letter.arrived_ns or letter.set_aside_ns)
    return [key_argument(letter.key), "--at", until]


@dataclass(frozen=True)
class Explaining:
    """How `wallaroo explain` is called for a run.

    Args:
        app: Its APP.
        args: Arguments of the application.
        directory: The directory with the log.
        archive: Where older parts of the log are; None for nowhere.
        is_here: Whether this process can read them.
    """

    app: str
    args: tuple[str, ...]
    directory: Path
    archive: Path | None = None
    is_here: bool = True

    @classmethod
    def of(
        cls, application: ApplicationRef, directory: Path, archive: Path | None, *, is_here: bool
    ) -> Explaining:
        """That of a run of *application*, without addresses that its code does not need.

        Example:
            >>> given = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1", "--most", "5")
            >>> Explaining.of(ApplicationRef("app", given), Path("s"), None, is_here=True).args
            ('--most', '5')
        """
        args = application.args
        while args[:1] in {("--in",), ("--out",)} and "@" not in args[1]:
            args = args[2:]
        app = application.absolute().app
        return cls(app, args, directory.absolute(), archive and archive.absolute(), is_here)

    def command(self, asked: Sequence[str], *, shows_args: bool = True) -> str:
        """The command line that explains what is *asked*.

        Example:
            >>> explaining = Explaining("app", ("--most", "5"), Path("/state"))
            >>> explaining.command(["a b"])
            "wallaroo explain app 'a b' --state-dir /state -- --most 5"
            >>> explaining.command(["a b"], shows_args=False)
            "wallaroo explain app 'a b' --state-dir /state -- …"
        """
        own, args = self._arguments(asked)
        shown = shell_line(["wallaroo", *own, *(args if shows_args else args[:1])])
        return f"{shown} …" if args and not shows_args else shown

    def arguments(self, asked: Sequence[str]) -> list[str]:
        """The arguments of `wallaroo` that explain what is *asked*."""
        own, args = self._arguments(asked)
        return [*own, *args]

    def _arguments(self, asked: Sequence[str]) -> tuple[list[str], list[str]]:
        """The arguments of the command, and those of the application, behind `--`."""
        archive = [] if self.archive is None else ["--archive", str(self.archive)]
        own = ["explain", self.app, *asked, "--state-dir", str(self.directory), *archive]
        return own, ["--", *self.args] if self.args else []


class Explainer:
    """Calls the command in a separate process, with limits; one at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def run(self, explaining: Explaining, asked: Sequence[str]) -> dict[str, str]:
        """What the command prints, and its notes.

        Raises:
            RuntimeFailure: It fails, or takes too long.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as notes:
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "wallaroo", *explaining.arguments(asked)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=notes,
                start_new_session=True,  # what it starts ends with it
            )
            try:
                _limit(process.pid)
                code = process.wait(0 if self._is_over else LIMIT_S)
            except subprocess.TimeoutExpired as error:
                msg = f"it takes longer than {LIMIT_S:g} s: call the command in a terminal"
                raise RuntimeFailure(msg) from error
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                self._process = None
            last = max(0, notes.seek(0, os.SEEK_END) - _MOST_NOTES)
            remarks = _shown(notes, last, _MOST_NOTES)
            if code:
                raise RuntimeFailure(remarks.strip() or f"it ended with exit code {code}")
            text = _shown(out, 0, _MOST_SHOWN)
            if out.seek(0, os.SEEK_END) > _MOST_SHOWN:
                remarks += "note: this is the beginning; call the command in a terminal for all\n"
            return {"text": text, "notes": remarks}

    def stop(self) -> None:
        """End what is called."""
        self._is_over = True
        if (process := self._process) is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _limit(pid: int) -> None:
    """Limit what a process uses; it may be over."""
    seconds = int(LIMIT_S)
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, _LOWEST_PRIORITY)
        for limit, most in (
            (resource.RLIMIT_DATA, _MOST_MEMORY),
            (resource.RLIMIT_FSIZE, _MOST_FILE),
            (resource.RLIMIT_CPU, seconds),  # if this process is killed meanwhile
        ):
            resource.prlimit(pid, limit, (most, most))


def _shown(file: IO[bytes], start: int, most: int) -> str:
    """At most so many bytes of *file*, from *start* on, as text."""
    file.seek(start)
    return printable_lines(file.read(most).decode("utf-8", "replace"))
