"""The status that a gateway reports."""

from __future__ import annotations

from dataclasses import dataclass

WAITING = "waiting to take over"
"""State of a gateway or driver that is to take over from another one."""


@dataclass(frozen=True)
class GatewayStatus:
    """What a gateway has done and holds."""

    sources: tuple[SourceStatus, ...]
    sinks: tuple[SinkStatus, ...]
    connections: int
    """Connections of senders open now."""
    backlog: int
    """Messages accepted, and ticks of the clock, not processed by a published chunk."""
    backlog_bytes: int
    """Bytes of messages that the journal holds."""
    waited_s: float
    """Seconds that the first message of the backlog has waited."""
    undelivered: int
    """Outputs published and not delivered."""
    waits_for_time: bool
    """Whether the clock will close windows or call timers."""
    published: int
    """Outputs that chunks have published since the state directory was new."""
    delivered: int
    """Outputs that receivers have taken since then, without those that they refused."""
    set_aside: int
    """Messages that have failed since then."""
    unknown_key: int
    """Messages dropped since then because their key is not listed."""
    late: int
    """Messages that have come since then after their windows had closed."""
    dead_letters: int = 0
    """Dead letters kept now."""
    dead_letters_gone: int = 0
    """Dead letters dropped because they were too old or too many."""

    @property
    def unprocessed(self) -> int:
        """The backlog without ticks, of which there may always be another one."""
        return sum(source.backlog for source in self.sources)

    @property
    def waiting(self) -> str:
        """Which sources wait for tables; empty if none does."""
        return "; ".join(f"source {one.name!r} {one.waits}" for one in self.sources if one.waits)


@dataclass(frozen=True)
class SourceStatus:
    """One source of a gateway."""

    name: str
    where: str
    """`HOST:PORT` that is bound, or what is read."""
    accepted: int
    """Messages accepted since the state directory was new."""
    backlog: int = 0
    """Messages accepted and not processed by a published chunk."""
    ended: bool = False
    """Whether it has come to its end, and gives no more messages in this run."""
    failures: int = 0
    """Times that reading has failed since its last message."""
    problem: str | None = None
    """Why it failed last; None if it has not since its last message."""
    waits: str | None = None
    """For which tables it waits, as a predicate; None if it does not wait."""


@dataclass(frozen=True)
class SinkStatus:
    """One sink of a gateway."""

    name: str
    where: str
    """`HOST:PORT` that outputs go to, or what writes them."""
    problem: str | None = None
    """Why outputs wait on disk now; None while they do not."""
