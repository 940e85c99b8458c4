"""A pause of a run: the engine processes nothing, while sources and sinks go on.

Sources accept messages until the journal is full, from when on their senders wait. Sinks deliver
what is published. A pause belongs to the process that runs the engine and ends with it. Neither a
restarted query nor a restarted gateway ends it.
"""

from __future__ import annotations

import threading
import time

import structlog

from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import RuntimeFailure
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample

log = structlog.get_logger("wallaroo")


class Pause:
    """Pauses and resumes what *engine* does, which is held if it is paused *since* a time.

    It is thread-safe.
    """

    def __init__(self, engine: RunningEngine, since: float | None = None) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._since = since
        self._closed = False

    @property
    def since(self) -> float | None:
        """When the run was paused, in seconds since the Unix epoch; None while it is not."""
        return self._since

    def pause(self, by: str) -> bool:
        """Let the chunks under way end, and start no other.

        Args:
            by: Who asks for it, for the log.

        Returns:
            Whether the run was not paused yet.

        Raises:
            RuntimeFailure: The run stops.
        """
        with self._lock:
            self._check_open()
            if self._since is not None:
                return False
            self._engine.hold()
            self._since = time.time()
        log.warning("paused", by=by, advice="messages wait until the run is resumed")
        return True

    def resume(self, by: str) -> bool:
        """Process messages again.

        Args:
            by: Who asks for it, for the log.

        Returns:
            Whether the run was paused.

        Raises:
            RuntimeFailure: The run stops.
        """
        with self._lock:
            self._check_open()
            if self._since is None:
                return False
            self._engine.release()
            paused_s, self._since = time.time() - self._since, None
        log.info("resumed", by=by, paused_s=round(paused_s, 1))
        return True

    def close(self) -> bool:
        """Change nothing from now on, because the run stops; returns whether it is paused."""
        with self._lock:
            self._closed = True
            return self._since is not None

    def sample(self) -> Sample:
        """Whether it is paused, as a metric."""
        return Sample(catalogue.PAUSED, (), int(self._since is not None))

    def _check_open(self) -> None:
        if self._closed:
            msg = "the run is stopping: it can no longer be paused or resumed"
            raise RuntimeFailure(msg)
