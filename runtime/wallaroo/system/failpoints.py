"""Places at which the chaos tests kill a process; nothing happens there otherwise.

A process that was started with `WALLAROO_FAULTS=DIRECTORY` in its environment looks, at each place,
for a file of the place's name there. One process removes it and sends SIGKILL to itself, or does so
to the process whose number the file holds, after as many milliseconds as the file says.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

_DIRECTORY = os.environ.get("WALLAROO_FAULTS")


def _nothing(place: str) -> None:
    """Go on."""


def _look(place: str) -> None:
    assert _DIRECTORY is not None
    file = Path(_DIRECTORY, place)
    taken = file.with_name(f"{place}.{os.getpid()}")
    try:
        file.rename(taken)
    except FileNotFoundError:
        return
    victim, delay_ms = (*map(int, taken.read_text().split()), 0, 0)[:2]
    if not delay_ms:
        os.kill(victim or os.getpid(), signal.SIGKILL)
    else:
        kill = threading.Timer(delay_ms / 1000, os.kill, (victim, signal.SIGKILL))
        kill.daemon = True
        kill.start()


fault = _look if _DIRECTORY else _nothing
"""Called at a place, with its name."""
