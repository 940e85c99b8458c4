"""What senders may cost the gateway."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLimits:
    """What senders may cost; who is over a limit is refused, with one log line."""

    connections: int = 10_000
    """Connections to one source: an idle one costs some kB."""
    connections_per_peer: int = 5_000
    """Connections to one source from one address, so that one machine cannot take them all; a
    proxy makes many machines one."""
    idle_s: float = 0.0
    """Seconds after which a connection that sends nothing is closed; 0 for never, since senders
    may have nothing to say."""
    held_bytes: int = 256 * 1024**2
    """Bytes of frames that have begun and are not complete, over all connections: some times the
    largest frame."""
