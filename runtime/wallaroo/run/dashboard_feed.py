"""A run to look at: its gateway's figures and its engine's, together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from wallaroo.api.addresses import Address
from wallaroo.dashboard.server import DashboardServer
from wallaroo.dashboard.watch import Watch
from wallaroo.engine.base import RunningEngine
from wallaroo.engine.metrics import KnownError, TimedBatch
from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.metrics.samples import Sample
from wallaroo.model.application import Application
from wallaroo.run.state.saved import of_key
from wallaroo.system.binding import why_not_bound

log = structlog.get_logger("wallaroo")


class DashboardFeed:
    """What a dashboard wants to know of a run.

    Args:
        location: Where the gateway's internal API is.
        engine: The engine.
    """

    def __init__(self, location: str, engine: RunningEngine) -> None:
        self._client = GatewayClient(location, patience_s=0)  # a gateway that is away is news, too
        self._engine = engine

    @property
    def dead_letters(self) -> DeadLetterActions:
        """Lists, replays and drops its dead letters."""
        return self._client

    def status(self) -> GatewayStatus:
        """What the gateway has done and holds."""
        return self._client.status()

    def samples(self) -> list[Sample]:
        """All figures."""
        return self._client.samples() + self._engine.samples()

    def hot_keys(self) -> list[tuple[str, str, float]]:
        """State partition, key and recent messages of the keys with the most."""
        return self._client.hot_keys()

    def batches(self) -> Sequence[TimedBatch]:
        """The last batches."""
        return self._engine.figures.batches()

    def errors(self) -> Sequence[KnownError]:
        """The last errors of user code."""
        return self._engine.figures.errors()

    def look_up(self, key: str) -> dict[str, Any]:
        """See `Watched.look_up`."""
        with self._engine.saved_state() as saved:
            commit = saved.commit._asdict() if saved.commit else None
            return {"commit": commit, "entities": list(of_key(saved, key))}

    def close(self) -> None:
        """Close the connection to the gateway."""
        self._client.close()


class Dashboard:
    """A watch and the server that shows it.

    Args:
        watch: The watch.
        server: The server.
    """

    def __init__(self, watch: Watch, server: DashboardServer) -> None:
        self.watch = watch
        self._server = server
        self.url = server.url
        """Where the page is."""

    def close(self) -> None:
        """Stop watching and serving."""
        self.watch.stop()
        self._server.close()


def serve_dashboard(
    address: Address, application: Application, watched: DashboardFeed, token: str | None
) -> Dashboard:
    """Serve the dashboard of *application* at *address*, or at a free port if that is taken.

    Who shows *token* may replay and drop dead letters; with None, nobody.
    """
    watch = Watch(application, watched)
    try:
        server = DashboardServer(address, watch, token)
    except (OSError, UnicodeError) as error:
        server = DashboardServer(Address("127.0.0.1", "0"), watch, token)
        log.warning(
            "dashboard elsewhere",
            wanted=":".join(address),
            reason=why_not_bound(error, address.host, "--ui"),
            dashboard=server.url,
        )
    return Dashboard(watch, server)
