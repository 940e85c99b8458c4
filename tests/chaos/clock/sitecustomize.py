"""Lets the wall clock of a Python process jump; on the PYTHONPATH of all that chaos tests start."""

import os
import time
from pathlib import Path

_FILE = Path(os.environ["WALLAROO_FAULTS"], "clock")
_time, _time_ns = time.time, time.time_ns


def _jumped_s() -> int:
    """Seconds that the clock is ahead of its time."""
    try:
        return int(_FILE.read_text())
    except FileNotFoundError:
        return 0


time.time = lambda: _time() + _jumped_s()
time.time_ns = lambda: _time_ns() + _jumped_s() * 10**9
