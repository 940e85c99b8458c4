"""The end of a run on one machine that leaves nothing undone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.run.gateway_process import GatewayProcess
from wallaroo.run.lifecycle import CHECK_INTERVAL_S

_EPOCH_S = 10.0
"""Seconds for an epoch to end even if the time to drain is over: a start has less to do then."""

log = structlog.get_logger("wallaroo")


class Drain:
    """Closes the sources, and lets a run process and deliver what it has accepted.

    Args:
        client: Calls the gateway.
        gateway: Its process, which is started again if it fails.
        engine: The engine.
        status: Returns the gateway's status.
        failure: Returns which part has failed; None if none has.
        signal: Set by another signal.
        limit_s: Seconds that it may take.
    """

    def __init__(
        self,
        client: GatewayClient,
        gateway: GatewayProcess,
        engine: RunningEngine,
        status: Callable[[], GatewayStatus],
        failure: Callable[[], str | None],
        signal: threading.Event,
        limit_s: float,
    ) -> None:
        self._client, self._gateway, self._engine = client, gateway, engine
        self._status, self._failure, self._signal = status, failure, signal
        self._limit_s = limit_s

    def run(self, *, paused: bool) -> tuple[GatewayStatus, str]:
        """Continue until all is done, or, if the run is *paused*, all that is published.

        Windows and timers that become due meanwhile are left to the next start: there may always
        be another one.

        Returns:
            The status, and why messages or outputs may remain.

        Raises:
            RuntimeFailure: A part failed.
        """
        starts = self._gateway.starts
        self._client.stop_accepting()
        until, interruption = time.monotonic() + self._limit_s, None
        if paused:
            self._finish_epoch(until)
        status = self._status()
        log.info(
            "stopping",
            accepted={source.name: source.accepted for source in status.sources},
            backlog=status.backlog,
            undelivered=status.undelivered,
        )
        self._signal.clear()
        while True:
            while not interruption and ((status.unprocessed and not paused) or status.undelivered):
                self._raise_failure()
                if self._gateway.starts != starts:  # a restarted gateway listens again
                    starts = self._gateway.starts
                    self._client.stop_accepting()
                if self._signal.wait(CHECK_INTERVAL_S / 4):
                    interruption = "another signal arrived"
                elif time.monotonic() > until:
                    interruption = f"the --drain-timeout of {self._limit_s:g} s has expired"
                status = self._status()
            if not status.unprocessed:
                self._finish_epoch(until)
                status = self._status()  # what ran may have had outputs
            if paused or interruption or not (status.unprocessed or status.undelivered):
                return status, interruption or "the run is paused"
            self._engine.release()

    def _finish_epoch(self, until: float) -> None:
        """Let Spark have the state as of all that is published, and let nothing else be published.

        Args:
            until: When to give up, by the monotonic clock.

        Raises:
            RuntimeFailure: A part failed.
        """
        while True:
            try:
                self._engine.hold()
                return self._engine.finish_epoch(max(_EPOCH_S, until - time.monotonic()))
            except Exception as error:  # Java may have ended, or a process
                self._raise_failure(error)
            if time.monotonic() > until or self._signal.wait(CHECK_INTERVAL_S / 4):
                return None

    def _raise_failure(self, cause: Exception | None = None) -> None:
        if (failure := self._failure()) is not None:
            raise RuntimeFailure(failure) from cause
