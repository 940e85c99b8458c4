"""The probes of a gateway, its status and its metrics, over HTTP."""

from __future__ import annotations

import asyncio
import dataclasses

from wallaroo.api.addresses import Address
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.status import WAITING
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.monitoring import Monitor
from wallaroo.metrics.exposition import exposition
from wallaroo.observability.health import Health, HealthServer

STARTING = "starting"
_TURN_S = 4.0
"""Seconds after which a probe stops waiting for the event loop; charts wait 5 for an answer."""
_FLUSH_S = 2.0
"""Seconds, of these, in which the disk has to take what was accepted."""


class Probes:
    """The health server of a gateway, in the running event loop, from its start to its end.

    Args:
        address: Where it listens; None for no server.

    Raises:
        RuntimeFailure: The address cannot be bound.

    Attributes:
        starting: What the gateway does until it serves; None once it does.
        stopping: Whether its sources are closed.
    """

    def __init__(self, address: Address | None) -> None:
        self.starting: str | None = STARTING
        self.stopping = False
        self._loop = asyncio.get_running_loop()
        self._server: HealthServer | None = None
        if address is not None:
            self._server = HealthServer(
                address,
                {"/healthz": self._alive, "/readyz": self._accepting},
                lambda: dataclasses.asdict(self._started().status()),
                lambda: exposition(self._started().samples()),
            )

    def serving(self, journal: Journal, monitor: Monitor) -> None:
        """Tell from now on what a gateway does that serves."""
        self._journal, self._monitor = journal, monitor
        self.starting = None

    def close(self) -> None:
        """Tell nothing more."""
        if self._server is not None:
            self._server.close()

    def _started(self) -> Monitor:
        if self.starting is not None:
            raise RuntimeFailure(self.starting)
        return self._monitor

    def _alive(self, within_s: float = _TURN_S) -> Health:
        """Whether the event loop, which serves all sockets, takes its turns."""
        if self.starting is not None:  # a large log takes a while, and a full disk longer
            return Health(True, self.starting)
        try:
            asyncio.run_coroutine_threadsafe(_turn(), self._loop).result(within_s)
        except TimeoutError:
            return Health(False, f"the event loop of the sockets took no turn in {within_s:.0f} s")
        return Health(True, "alive")

    def _accepting(self) -> Health:
        """Whether messages reach the disk, or would once this gateway has taken over."""
        if self.starting is not None:
            return Health(self.starting == WAITING, self.starting)
        if self.stopping:
            return Health(False, "stopping: the sources are closed")
        if not self._journal.flush(_FLUSH_S):
            return Health(False, f"the journal's disk took nothing in {_FLUSH_S:.0f} s")
        alive = self._alive(_TURN_S - _FLUSH_S)
        return Health(True, self._monitor.status().waiting or alive.reason) if alive.good else alive


async def _turn() -> None:
    """A turn of the event loop."""
