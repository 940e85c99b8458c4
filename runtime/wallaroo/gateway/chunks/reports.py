"""What the driver of a real-time query is told of publications, now and then."""

from __future__ import annotations

import threading
import time

from wallaroo.dataflow.records import Tally
from wallaroo.engine.realtime.frames import FrameSocket
from wallaroo.engine.realtime.messages import PUBLISHED, Timing, pack_json

_AFTER_S = 0.1
"""Time between two reports."""


class Reports:
    """Gathers what was published, and reports it; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unreported = Tally()
        self._timing = Timing()
        """How long the last publication took."""
        self._last = 0.0

    def add(self, tally: Tally, timing: Timing) -> None:
        """Note a publication."""
        with self._lock:
            self._unreported.merge(tally)
            self._timing = timing

    def send(self, driver: FrameSocket) -> None:
        """Report to *driver* what was published, if it is time.

        Raises:
            OSError: It is gone.
        """
        now = time.monotonic()
        with self._lock:
            if not self._unreported or now - self._last < _AFTER_S:
                return
            if not driver.is_ready():  # it stands still, and the stream is not to wait for it
                return
            tally, self._unreported, self._last = self._unreported, Tally(), now
        driver.send(pack_json(PUBLISHED, [tally.to_json(), *self._timing]))
