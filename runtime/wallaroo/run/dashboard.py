"""The dashboard of a run."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from wallaroo.api.addresses import Address
from wallaroo.dashboard.application import Watched
from wallaroo.dashboard.monitor import Watch
from wallaroo.dashboard.server import DashboardServer
from wallaroo.model.application import Application
from wallaroo.system.binding import why_not_bound

log = structlog.get_logger("wallaroo")


def serve_dashboard(
    address: Address,
    application: Application,
    watched: Watched,
    token: str | None,
    names: Sequence[str] = (),
) -> DashboardServer:
    """Serve the dashboard of *application* at *address*, or at a free port if that is in use.

    Users who enter *token* may pause the run, and replay and drop dead letters; with None, nobody
    may. Browsers may call it by *names* as well.
    """
    watch = Watch(application, watched)
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
