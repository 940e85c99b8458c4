"""Keeps the process running that archives what is not needed any more of the log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import structlog

from wallaroo.gateway.log.kept import MOST_WAITING

_RESTART_S = 10.0
"""Seconds until a process that has ended is replaced."""
_END_S = 2.0
"""Seconds within which a process has to end after SIGTERM, and again after SIGKILL."""

log = structlog.get_logger("wallaroo.gateway")


class Archiver:
    """Runs that process, for the running event loop, and logs what it says.

    Args:
        directory: The directory of the log.
        archive: Where segments are moved to, which may be away at times.
    """

    def __init__(self, directory: Path, archive: Path) -> None:
        self._directory, self._archive = directory, archive
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._is_stuck = False

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "wallaroo.gateway.log.archiving"]
        command += [str(self._directory.absolute()), str(self._archive.absolute())]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # a terminal's signals are not for it
            )
        except OSError as error:
            self._note(f"its process cannot be started: {error}")
            self._restart = self._loop.call_later(_RESTART_S, self.start)
            return
        assert self._process.stdout is not None
        self._loop.add_reader(self._process.stdout, self._read)

    def stop(self) -> None:
        """End it; what it is copying is copied again later."""
        if self._restart is not None:
            self._restart.cancel()
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang for an archive
                self._process.wait(_END_S)
            self._process.kill()
            self._end()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            self._note(json.loads(line)["problem"])
            return
        self._end()
        self._note("its process has ended")
        self._restart = self._loop.call_later(_RESTART_S, self.start)

    def _end(self) -> None:
        """Close and reap the process, which has ended or is killed."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._loop.remove_reader(process.stdout)
        process.stdin.close()
        process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang for an archive
            process.wait(_END_S)

    def _note(self, problem: str | None) -> None:
        if problem is not None:
            log.warning(
                "archive waits",
                archive=str(self._archive),
                reason=problem,
                effect=f"{MOST_WAITING} files of the log wait for it, besides those that did at "
                "the start; then the oldest are removed",
            )
        elif self._is_stuck:
            log.info("archive resumed", archive=str(self._archive))
        self._is_stuck = problem is not None
