"""The dashboard's interface to a running application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from wallaroo.engine.realtime.metrics import KnownError
from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.internal_api.status import GatewayStatus
from wallaroo.metrics.samples import HotKey, Sample
from wallaroo.system.restarts import Restart
from wallaroo.wire.chunk_messages import Publication


class Pausing(Protocol):
    """Pauses and resumes a running application."""

    @property
    def since(self) -> float | None:
        """When it was paused, in seconds since the Unix epoch; None while it is not."""

    def pause(self, by: str) -> bool:
        """Pause it for *by*; returns whether it was not paused yet."""

    def resume(self, by: str) -> bool:
        """Resume it for *by*; returns whether it was paused."""


class Watched(Protocol):
    """A running application."""

    @property
    def dead_letters(self) -> DeadLetterActions:
        """Lists, replays and drops its dead letters."""

    @property
    def pausing(self) -> Pausing:
        """Pauses and resumes it."""

    def status(self) -> GatewayStatus:
        """Counts and contents of its gateway."""

    def samples(self) -> list[Sample]:
        """All its metrics."""

    def hot_keys(self) -> Sequence[HotKey]:
        """The keys with the most messages recently, the first first."""

    def publications(self) -> Sequence[Publication]:
        """The last publications, the oldest first."""

    def errors(self) -> Sequence[KnownError]:
        """The last errors of user code, the newest first."""

    def restarts(self) -> Mapping[str, Sequence[Restart]]:
        """The last restarts of its parts, the oldest first, by the part."""

    def interruption(self) -> str | None:
        """Why its engine does not run at the moment; None while it runs."""

    def look_up(self, key: str) -> Mapping[str, Any]:
        """The entities of *key* as of all that is published, as plain JSON values.

        `commit` has the number of the epoch that ends there and the time of its commit, or is None
        if no epoch has ended. `entities` is a list of objects with `state`, `key` and `entity`.
        """
