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

from wallaroo.errors import reason_of
from wallaroo.gateway.log.archive import archive
from wallaroo.gateway.log.segments import leaving_files

_LOOK_S = 1.0
"""Seconds until it looks again for a segment."""
_RETRY_S = 5.0
"""Seconds until it tries again what has failed."""
_MOST_BUSY = 10
"""Looks until it tells that another process is archiving, as it may hang for an archive."""


def archive_oldest(log: Path, directory: Path) -> bool:
    """Archive the oldest segment that waits, and remove it from the *log*.

    Returns:
        Whether there was one.

    Raises:
        OSError: The archive cannot be written.
    """
    if not directory.is_dir():
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


def main(log: Path, directory: Path) -> None:
    """Archive segments until standard input ends."""
    os.nice(19)
    problem: str | None = None
    busy = 0
    lock = os.open(log, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    while True:
        found, wait_s = problem, 0.0
        try:
            # one of a gateway that was killed may be about to end
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not archive_oldest(log, directory):
                wait_s = _LOOK_S
            found = None
        except BlockingIOError:
            busy, wait_s = busy + 1, _LOOK_S
            if busy > _MOST_BUSY:
                found = "the process of an earlier gateway has not ended"
        except OSError as error:
            found, wait_s = reason_of(error), _RETRY_S
        if found != problem:
            problem = found
            print(json.dumps({"problem": problem}), flush=True)
        if select.select([sys.stdin], [], [], wait_s)[0]:
            return


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # removes what it has begun
    main(Path(sys.argv[1]), Path(sys.argv[2]))
