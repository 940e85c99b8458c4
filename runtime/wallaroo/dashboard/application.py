"""A running application, as the dashboard sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wallaroo.engine.realtime.pausing import Pause
from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.gateway.explaining import Explaining
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.metrics.samples import Sample
from wallaroo.system.restarts import Restart


@dataclass(frozen=True)
class Watched:
    """A running application: the parts that are asked."""

    gateway: GatewayClient
    """Its gateway; without patience, because an outage is shown."""
    engine: RunningEngine
    pause: Pause
    """Pauses and resumes the engine."""
    explaining: Callable[[], Explaining]
    """Returns how its histories are explained."""
    gateway_restarts: Callable[[], Sequence[Restart]] = tuple
    """Returns the last restarts of the gateway that are known here."""

    def samples(self) -> list[Sample]:
        """All its metrics."""
        return [*self.gateway.samples(), *self.engine.samples(), self.pause.sample()]
