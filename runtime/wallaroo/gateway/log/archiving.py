"""The process that archives segments: `python -m wallaroo.gateway.log.archiving LOG ARCHIVE`.

It has its own process, at the lowest priority, so that neither compression nor a slow or absent
archive stops anything. Log and archive are all that it knows: it copies the oldest segment that
waits in the directory of the log, removes it there, and so on. It ends with its standard input, and
prints a line whenever it cannot go on, and when it can again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import structlog

from wallaroo.errors import RuntimeFailure, reason_of
from wallaroo.gateway.log.archive import archive
from wallaroo.gateway.log.segments import leaving_files
from wallaroo.system.object_store import SCHEME, ObjectPath, is_stored

_LOOK_S = 1.0
"""Seconds until it looks again for a segment."""
_RETRY_S = 5.0
"""Seconds until it tries again what has failed."""
_MOST_BUSY = 10
"""Looks until it tells that another process is archiving, as it may hang for an archive."""


class Report:
    """Prints what keeps the process from going on, whenever that changes."""

    def __init__(self) -> None:
        self._problem: str | None = None

    def note(self, problem: str | None) -> None:
        """Note a problem; None if there is none."""
        if problem != self._problem:
            self._problem = problem
            print(json.dumps({"problem": problem}), flush=True)

    def note_event(self, _logger: Any, _method: str, event: structlog.typing.EventDict) -> NoReturn:
        """Note that a call waits, which is logged, unless it is known why; for structlog."""
        if self._problem is None:
            self.note(event["event"])
        raise structlog.DropEvent


def archive_oldest(log: Path, directory: Path) -> bool:
    """Archive the oldest segment that waits, and remove it from the *log*.

    Returns:
        Whether there was one.

    Raises:
        OSError: The archive cannot be written.
        RuntimeFailure: The object store refuses a request, or does not answer.
    """
    if not is_stored(directory) and not directory.is_dir():
        msg = f"{directory} is not there"
        raise OSError(msg)
    for _, file in leaving_files(os.listdir(log), log):  # noqa: PTH208 - names are what is wanted
        try:
            archive(file, directory)
        except FileNotFoundError:
            if file.exists():
                raise
            continue  # the gateway has given it up meanwhile
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        return True
    return False


def main(log: Path, directory: Path, report: Report) -> None:
    """Archive segments until standard input ends."""
    os.nice(19)
    busy = 0
    lock = os.open(log, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    while True:
        wait_s = 0.0
        try:
            # one of a gateway that was killed may be about to end
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not archive_oldest(log, directory):
                wait_s = _LOOK_S
            report.note(None)
        except BlockingIOError:
            busy, wait_s = busy + 1, _LOOK_S
            if busy > _MOST_BUSY:
                report.note("the process of an earlier gateway has not ended")
        except (OSError, RuntimeFailure) as error:
            report.note(reason_of(error))
            wait_s = _RETRY_S
        if select.select([sys.stdin], [], [], wait_s)[0]:
            return


if __name__ == "__main__":
    place, reported = sys.argv[2], Report()
    structlog.configure([reported.note_event])
    if place.startswith(SCHEME):  # SIGTERM ends it even if it waits for the store
        main(Path(sys.argv[1]), ObjectPath.at(place), reported)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # removes what it has begun
        main(Path(sys.argv[1]), Path(place), reported)
