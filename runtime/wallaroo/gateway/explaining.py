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
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wallaroo.dataflow.results import KEY_LENGTH
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.store import DeadLetter
from wallaroo.loading.loader import ApplicationRef
from wallaroo.system.memory import available_bytes, to_be_killed_first
from wallaroo.system.printable import printable_lines, shown_time
from wallaroo.system.process_end import how_ended

LIMIT_S = 60.0
"""Seconds after which it is ended."""
_MOST_MEMORY = 2 * 1024**3
"""Bytes of memory that it may have if nothing else is said; what is beyond fails in it."""
_MEMORY_SHARE = 0.5
"""Part of the available memory that it may have, if that is less: a container's, for instance."""
_MOST_FILE = 1024**3
"""Bytes of a file that it may write, such as a segment of an archive."""
_MOST_SHOWN = 1024**2
"""Bytes that are shown of what it prints."""
_MOST_NOTES = 4096
"""Bytes that are shown of its notes, the last ones."""
_LOWEST_PRIORITY = 19
_CALL = """
from wallaroo.system.lifeline import die_with_starter, end_group_with_leader
end_group_with_leader()
die_with_starter()
from wallaroo_command import main
main()
"""
"""Calls the command so that it ends with its starter, and what it starts ends with it."""
_ELSEWHERE = "call the command in a terminal"
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
    """Calls the command in a separate process, with limits; one at a time.

    Args:
        explaining: Returns how it is called for the run, as that is now.
        most_memory: Bytes of memory that it may have.
    """

    def __init__(
        self, explaining: Callable[[], Explaining], most_memory: int = _MOST_MEMORY
    ) -> None:
        self._explaining, self._most_memory = explaining, most_memory
        self._process: subprocess.Popen[bytes] | None = None
        self._running, self._is_over = threading.Lock(), False

    def run(self, asked: Sequence[str]) -> dict[str, str]:
        """What the command prints, and its notes.

        Raises:
            RuntimeFailure: It fails, takes too long, or is running already.
        """
        if not self._running.acquire(blocking=False):
            msg = "another history is being made: try again in a minute"
            raise RuntimeFailure(msg)
        try:
            return self._run(self._explaining().arguments(asked))
        finally:
            self._running.release()

    def _run(self, arguments: Sequence[str]) -> dict[str, str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as notes:
            self._process = process = subprocess.Popen(
                [sys.executable, "-c", _CALL, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=notes,
                start_new_session=True,
            )
            code = None
            try:
                memory = _limit(process.pid, self._most_memory)
                code = process.wait(0 if self._is_over else LIMIT_S)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                self._process = None
            if self._is_over:
                msg = "the process that makes it is stopping: try again in a minute"
                raise RuntimeFailure(msg)
            if code is None:
                msg = f"it takes longer than {LIMIT_S:g} s: {_ELSEWHERE}"
                raise RuntimeFailure(msg)
            last = max(0, notes.seek(0, os.SEEK_END) - _MOST_NOTES)
            remarks = _shown(notes, last, _MOST_NOTES)
            if code:
                reason = remarks.strip() or f"it {how_ended(code)}"
                if code == -signal.SIGKILL or "MemoryError" in remarks:
                    mib = f"it may have {memory >> 20:,} MiB of memory here"
                    reason += f"\n{mib}: {_ELSEWHERE} where there is more"
                raise RuntimeFailure(reason)
            text = _shown(out, 0, _MOST_SHOWN)
            if out.seek(0, os.SEEK_END) > _MOST_SHOWN:
                remarks += f"note: this is the beginning; for all of it, {_ELSEWHERE}\n"
            return {"text": text, "notes": remarks}

    def stop(self) -> None:
        """End what is called."""
        self._is_over = True
        if (process := self._process) is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _limit(pid: int, memory: int) -> int:
    """Limit what a process uses, which may be over; returns how many bytes of memory it may."""
    seconds = int(LIMIT_S)
    available = available_bytes()
    if available is not None:
        memory = min(memory, int(_MEMORY_SHARE * available))
    to_be_killed_first(pid)
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, _LOWEST_PRIORITY)
        for limit, most in (
            (resource.RLIMIT_DATA, memory),
            (resource.RLIMIT_FSIZE, _MOST_FILE),
            (resource.RLIMIT_CPU, seconds),  # if this process is killed meanwhile
        ):
            resource.prlimit(pid, limit, (most, most))
    return memory


def _shown(file: IO[bytes], start: int, most: int) -> str:
    """At most so many bytes of *file*, from *start* on, as text."""
    file.seek(start)
    return printable_lines(file.read(most).decode("utf-8", "replace"))
