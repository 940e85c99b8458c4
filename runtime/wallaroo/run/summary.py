"""A periodic summary of publications in a driver's log."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import structlog

from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.wire.chunk_messages import News

log = structlog.get_logger("wallaroo")


class Summary:
    """Logs what was published, once a minute while messages arrive or wait, never while idle.

    Args:
        gateway: Returns the gateway's status, or None if it does not respond.
        clock: Returns the time, in seconds.
    """

    EVERY_S = 60.0
    """Seconds between two summaries."""

    def __init__(
        self,
        gateway: Callable[[], GatewayStatus | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway, self._clock = gateway, clock
        self._lock = threading.Lock()
        self._since = clock()
        self._messages = 0
        self._seconds: list[float] = []
        """How long each publication since the last summary took."""

    def on_published(self, news: News) -> None:
        """Count what was published."""
        with self._lock:
            self._seconds += [one.run_s + one.commit_s for one in news.publications]
            self._messages += sum(news.tally.metrics.arrivals.values())

    def report(self) -> None:
        """Log a summary since the last one, unless the application was idle."""
        gateway = self._gateway()
        now = self._clock()
        with self._lock:
            took, messages, seconds = self._seconds, self._messages, now - self._since
            self._seconds, self._messages, self._since = [], 0, now
        backlog = gateway.backlog if gateway is not None else None
        if not messages and not backlog:
            return
        log.info(
            "published",
            publications=len(took),
            messages=messages,
            messages_per_s=round(messages / max(seconds, 1e-3)),
            publication_s=round(statistics.median(took), 4) if took else None,
            backlog=backlog,
            waited_s=round(gateway.waited_s, 1) if gateway is not None else None,
        )
