"""A periodic summary of batches in a driver's log."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence

import structlog

from wallaroo.engine.base import Batch, TimedBatch
from wallaroo.gateway.internal_api.status import GatewayStatus

EVERY_S = 60.0
"""Seconds between two summaries."""

log = structlog.get_logger("wallaroo")


class BatchSummary:
    """Counts batches, and logs a summary while messages arrive or wait, but nothing while idle.

    Args:
        timed: Returns the last batches, with their durations.
        gateway: Returns the gateway's status, or None if it does not respond.
        clock: Returns the time, in seconds.
    """

    def __init__(
        self,
        timed: Callable[[], Sequence[TimedBatch]],
        gateway: Callable[[], GatewayStatus | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timed, self._gateway, self._clock = timed, gateway, clock
        self._lock = threading.Lock()
        self._since = clock()
        self._batches = self._messages = 0
        self._last = -1
        """Last batch whose duration was reported."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="summary", daemon=True)

    def start(self) -> None:
        """Log every `EVERY_S` seconds, in a thread, because the gateway may respond slowly."""
        self._thread.start()

    def stop(self) -> None:
        """Stop logging."""
        self._stopping.set()

    def on_batch(self, batch: Batch) -> None:
        """Count a committed batch."""
        with self._lock:
            self._batches += len(batch.timed) or 1
            self._messages += sum(batch.tally.metrics.arrivals.values())

    def report(self) -> None:
        """Log a summary since the last one, unless the application was idle."""
        gateway = self._gateway()
        now = self._clock()
        with self._lock:
            batches, messages, seconds = self._batches, self._messages, now - self._since
            self._batches, self._messages, self._since = 0, 0, now
        backlog = gateway.backlog if gateway is not None else None
        if not messages and not backlog:
            return
        log.info(
            "batches",
            batches=batches,
            messages=messages,
            messages_per_s=round(messages / max(seconds, 1e-3)),
            batch_s=self._median_s(),
            backlog=backlog,
            waited_s=round(gateway.waited_s, 1) if gateway is not None else None,
        )

    def _median_s(self) -> float | None:
        """The median duration of the unreported batches; None if there are none."""
        fresh = [one.progress for one in self._timed() if one.progress.number > self._last]
        if not fresh:
            return None
        self._last = fresh[-1].number
        durations = [sum(p.phases.values()) - p.phases.get("wait", 0.0) for p in fresh]
        return round(statistics.median(durations), 2)

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self.report()
