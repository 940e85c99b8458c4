"""Failpoints, at which the chaos tests kill a process; without effect otherwise.

If `WALLAROO_FAULTS=DIRECTORY` is set, a process checks at each failpoint for a file with its name
in that directory. One process removes the file and sends SIGKILL to itself, or to the process whose
ID the file contains, after the number of milliseconds in the file; or another signal, whose number
is the third in the file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

_DIRECTORY = os.environ.get("WALLAROO_FAULTS")


def _ignore(place: str) -> None:
    """Do nothing."""


def _check(place: str) -> None:
    assert _DIRECTORY is not None
    file = Path(_DIRECTORY, place)
    taken = file.with_name(f"{place}.{os.getpid()}")
    try:
        file.rename(taken)
    except FileNotFoundError:
        return
    victim, delay_ms, number = (*map(int, taken.read_text().split()), 0, 0, 0)[:3]
    number = number or signal.SIGKILL
    if not delay_ms:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim or os.getpid(), number)
    else:
        kill = threading.Timer(delay_ms / 1000, os.kill, (victim, number))
        kill.name, kill.daemon = "failpoint", True
        kill.start()


fault = _check if _DIRECTORY else _ignore
"""Called at a failpoint with its name."""
