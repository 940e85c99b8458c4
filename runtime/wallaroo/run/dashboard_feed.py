"""The dashboard of a run, and the data that it shows: the gateway's and the engine's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from wallaroo.api.addresses import Address
from wallaroo.dashboard.monitor import Watch
from wallaroo.dashboard.server import DashboardServer
from wallaroo.engine.realtime.metrics import KnownError
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.metrics.samples import HotKey, Sample
from wallaroo.model.application import Application
from wallaroo.run.pausing import Pause
from wallaroo.run.state.saved import of_key
from wallaroo.system.binding import why_not_bound
from wallaroo.system.restarts import Restart
from wallaroo.wire.chunk_messages import Publication

log = structlog.get_logger("wallaroo")


class DashboardFeed:
    """The data of a run that its dashboard shows.

    Args:
        location: Location of the gateway's internal API.
        engine: The engine.
        pause: Pauses the engine.
        gateway_restarts: Returns the last restarts of the gateway that are known here.
    """

    def __init__(
        self,
        location: str,
        engine: RunningEngine,
        pause: Pause,
        gateway_restarts: Callable[[], Sequence[Restart]] = tuple,
    ) -> None:
        self._client = GatewayClient(location, patience_s=0)  # an outage is shown
        self._engine = engine
        self._pause = pause
        self._gateway_restarts = gateway_restarts

    @property
    def dead_letters(self) -> DeadLetterActions:
        """The actions on its dead letters."""
        return self._client

    @property
    def pausing(self) -> Pause:
        """Pauses and resumes it."""
        return self._pause

    def status(self) -> GatewayStatus:
        """The gateway's status."""
        return self._client.status()

    def samples(self) -> list[Sample]:
        """All metrics."""
        return [*self._client.samples(), *self._engine.samples(), self._pause.sample()]

    def hot_keys(self) -> list[HotKey]:
        """The keys with the most messages recently."""
        return self._client.hot_keys()

    def publications(self) -> Sequence[Publication]:
        """The last publications."""
        return self._engine.figures.publications()

    def errors(self) -> Sequence[KnownError]:
        """The last errors of user code."""
        return self._engine.figures.errors()

    def restarts(self) -> Mapping[str, Sequence[Restart]]:
        """The last restarts of its query and its gateway."""
        return {"query": self._engine.restarts(), "gateway": self._gateway_restarts()}

    def interruption(self) -> str | None:
        """Why it does not run at the moment."""
        return self._engine.interruption()

    def look_up(self, key: str) -> dict[str, Any]:
        """See `Watched.look_up`."""
        with self._engine.saved_state() as saved:
            commit = saved.commit._asdict() if saved.commit else None
            return {"commit": commit, "entities": list(of_key(saved, key))}


def serve_dashboard(
    address: Address,
    application: Application,
    feed: DashboardFeed,
    token: str | None,
    names: Sequence[str] = (),
) -> DashboardServer:
    """Serve the dashboard of *application* at *address*, or at a free port if that is in use.

    Users who enter *token* may pause the run, and replay and drop dead letters; with None, nobody
    may. Browsers may call it by *names* as well.
    """
    watch = Watch(application, feed)
    try:
        return DashboardServer(address, watch, token, names)
    except (OSError, UnicodeError) as error:
        server = DashboardServer(Address("127.0.0.1", "0"), watch, token, names)
        log.warning(
            "dashboard elsewhere",
            wanted=":".join(address),
            reason=why_not_bound(error, address.host, "--ui"),
            dashboard=server.url,
        )
    return server
