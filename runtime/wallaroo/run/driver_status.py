"""The status of a driver, for probes and for `wallaroo status`."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from typing import Any

from wallaroo.engine.realtime.pausing import Pause
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import WAITING, GatewayStatus
from wallaroo.metrics.exposition import exposition
from wallaroo.observability.health import Health
from wallaroo.run.kubernetes.autoscaler import Autoscaler
from wallaroo.wire.chunk_messages import News

_STARTING_S = 300.0
"""Seconds that a start may take before the driver counts as dead: starting Spark takes seconds,
replacing a lost node of the gateway takes minutes."""
_STALLED_S = 10.0
"""Seconds without a publication, with messages waiting, after which the driver is not ready: the
end of an epoch takes less than a second, a restart of everything with a million keys seven."""
HANDED_OVER = "handed over"
"""State of a driver from which another one has taken over."""
_RATE_S = 30.0
"""Seconds over which rates are averaged."""


class DriverStatus:
    """Records what the driver does, and reports it.

    Args:
        application: Name of the application.
        partitions: Partitions of the state.
    """

    def __init__(self, application: str, partitions: int) -> None:
        self._application = application
        self._partitions = partitions
        self._state = "starting"
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._chunk: int | None = None
        """Number of the last chunk that was published."""
        self._published_at = time.monotonic()
        self._publications: deque[tuple[float, int]] = deque()
        """When publications were recently reported, and how many."""
        self._processed: deque[tuple[float, int]] = deque()
        """Recent samples: when, and how many messages were processed by then."""
        self._last_error: str | None = None
        self.client: GatewayClient | None = None
        """Queries the gateway, without retries."""
        self.engine: RunningEngine | None = None
        """The engine, once it runs."""
        self.pause: Pause | None = None
        """Pauses the engine, once that runs."""
        self.autoscaler: Autoscaler | None = None
        """Lets the number of workers follow the load, if it comes from a ConfigMap."""

    def enter(self, state: str) -> None:
        """Record that the driver enters *state*."""
        self._state, self._since = state, time.monotonic()

    def fail(self, error: str) -> None:
        """Record the error that ended the driver."""
        self._state, self._last_error = "failed", error

    def on_published(self, news: News) -> None:
        """Record what was published."""
        now = time.monotonic()
        with self._lock:
            self._chunk, self._published_at = news.publications[-1].last, now
            self._publications.append((now, len(news.publications)))
            while self._publications[0][0] < now - _RATE_S:
                self._publications.popleft()
        if example := next(iter(news.tally.examples), None):
            self._last_error = f"{example.error} in {example.step} ({example.place})"

    def alive(self) -> Health:
        """Whether the query runs or is starting."""
        age_s = time.monotonic() - self._since
        if self._state == "failed":
            return Health(False, self._last_error or "failed")
        waits = self._state in {WAITING, HANDED_OVER}
        if self.engine is None and age_s > _STARTING_S and not waits:
            return Health(False, f"{self._state} for {age_s:.0f} s")
        return Health(True, self._state)

    def ready(self) -> Health:
        """Whether the query makes progress or has nothing to do."""
        if self._state != "running":
            # otherwise a rollback would wait for this pod, before it removes the one that took over
            return Health(self._state == HANDED_OVER, self._state)
        gateway = self.gateway()
        if gateway is None:
            return Health(False, "the gateway is unavailable")
        if (problem := self._lack()) is not None:
            return Health(False, problem)
        if self._paused_since() is not None:
            return Health(True, "paused")
        if (problem := self._stall(gateway)) is not None:
            return Health(False, problem)
        return Health(True, "advancing" if gateway.backlog else "idle")

    def _stall(self, gateway: GatewayStatus) -> str | None:
        """That messages wait and none is processed, in words; None if that is not so."""
        stalled_s = min(time.monotonic() - self._published_at, gateway.waited_s)
        if not gateway.backlog or stalled_s <= _STALLED_S:
            return None
        return f"{gateway.backlog:,} messages waiting, nothing published for {stalled_s:.0f} s"

    def _lack(self) -> str | None:
        """That the query waits for something, in words; None if it does not."""
        lack = None if self.engine is None else self.engine.lack
        return None if lack is None else f"the query waits: {lack}"

    def gateway_responds(self) -> bool:
        """Whether the gateway responds."""
        return self.gateway() is not None

    def to_json(self) -> dict[str, Any]:
        """The status as JSON."""
        gateway, paused = self.gateway(), self._paused_since()
        requested, running = (None, None) if self.engine is None else self.engine.workers()
        with self._lock:
            now = time.monotonic()
            recent = sum(count for at, count in self._publications if at > now - _RATE_S)
            chunk, age_s = self._chunk, now - self._published_at
        return {
            "application": self._application,
            "state": "paused" if self._state == "running" and paused else self._state,
            "paused_s": round(time.time() - paused, 1) if paused else None,
            "partitions": self._partitions,
            "workers": {
                "wanted": requested,
                "running": running,
            },
            "autoscaling": None if self.autoscaler is None else self.autoscaler.status(),
            "chunk": {"number": chunk, "age_s": round(age_s, 1)},
            "publications_per_s": round(recent / _RATE_S, 2),
            "messages_per_s": self._rate(),
            "lag_s": round(gateway.waited_s, 1) if gateway is not None else None,
            "backlog": gateway.backlog if gateway is not None else None,
            "problem": self._lack()
            or (None if gateway is None or paused else self._stall(gateway)),
            "last_error": self._last_error,
            "gateway": dataclasses.asdict(gateway) if gateway is not None else None,
        }

    def metrics(self) -> str:
        """The engine's metrics in Prometheus's format; the gateway serves its own."""
        if self.engine is None or self.pause is None:
            return ""
        scaling = [] if self.autoscaler is None else self.autoscaler.samples()
        return exposition([*self.engine.samples(), self.pause.sample(), *scaling])

    def _paused_since(self) -> float | None:
        return None if self.pause is None else self.pause.since

    def gateway(self) -> GatewayStatus | None:
        """The gateway's status; None while it does not respond."""
        if self.client is None:
            return None
        try:
            status = self.client.status()
        except RuntimeFailure:
            return None
        now = time.monotonic()
        with self._lock:
            done = sum(source.accepted for source in status.sources) - status.backlog
            self._processed.append((now, done))
            while self._processed[0][0] < now - _RATE_S:
                self._processed.popleft()
        return status

    def _rate(self) -> float | None:
        """Messages per second over the recent samples; None if there is only one."""
        with self._lock:
            if len(self._processed) < 2:  # noqa: PLR2004
                return None
            (first_at, first), (last_at, last) = self._processed[0], self._processed[-1]
        return round((last - first) / max(last_at - first_at, 0.001), 1)
