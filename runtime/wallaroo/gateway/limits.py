"""Limits for senders, and how much of them is used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLimits:
    """Limits for senders; a sender over a limit is rejected, with one log line."""

    connections: int = 10_000
    """Connections to one source: an idle one costs some kB."""
    connections_per_peer: int = 5_000
    """Connections to one source from one address, so that one machine cannot take them all; a
    proxy makes many machines one."""
    idle_s: float = 0.0
    """Seconds after which a connection that sends nothing is closed; 0 for never, since senders
    may have nothing to send."""
    frame_s: float = 60.0
    """Seconds that a frame may take from its first byte to its last, or each `FrameProgress.PIECE`
    of a large one; 0 for no limit. Without it, senders of unfinished frames could occupy all
    connections."""
    held_bytes: int = 256 * 1024**2
    """Bytes of frames that have begun and are not complete, over all connections: several times
    the largest frame, which one connection may hold. Half of it from one address."""

    FREE_BYTES = 4096
    """Bytes of a connection that do not count as held, so that senders of small messages are not
    rejected because of others."""


class FrameProgress:
    """Since when a connection has been at the frame that it is in, or at a piece of a large one.

    Args:
        now: The time now.

    Example:
        >>> progress = FrameProgress(0.0)
        >>> progress.note(1.0, 10, restart=True)
        >>> progress.note(2.0, 1, restart=False)  # one more byte gives it no more time
        >>> progress.since
        1.0
        >>> progress.note(3.0, FrameProgress.PIECE, restart=False)
        >>> progress.since
        3.0
    """

    PIECE = 64 * 1024
    """Bytes for which a large frame gets more time: so a slow line takes a frame of any size."""

    def __init__(self, now: float) -> None:
        self.begin(now)

    def begin(self, now: float) -> None:
        """Start measuring again."""
        self.since, self._bytes = now, 0

    def note(self, now: float, size: int, *, restart: bool) -> None:
        """Note that *size* bytes came.

        Args:
            now: The time now.
            size: How many.
            restart: Whether they ended a frame, or begin one.
        """
        self._bytes += size
        if restart or self._bytes >= self.PIECE:
            self.begin(now)


class Load:
    """What senders use now; lives in the event loop.

    Args:
        limits: Their limits.
    """

    def __init__(self, limits: SourceLimits) -> None:
        self._limits = limits
        self._open: Counter[tuple[int, str]] = Counter()
        """Connections by source and address of the sender; by source alone under no address."""
        self._held: Counter[str] = Counter()
        """Bytes of incomplete frames by address of the sender."""
        self.held = 0
        """Bytes of incomplete frames of all connections."""

    def admit(self, source: int, host: str) -> str | None:
        """Count a new connection to *source*; returns why it is rejected, if it is."""
        limits = self._limits
        if self._open[source, host] >= limits.connections_per_peer:
            return f"{limits.connections_per_peer} connections from {host} are open"
        if self._open[source, ""] >= limits.connections:
            return f"{limits.connections} connections are open"
        self._open.update([(source, host), (source, "")])
        return None

    def dismiss(self, source: int, host: str) -> None:
        """Count a connection that was admitted as ended."""
        self._open.subtract([(source, host), (source, "")])
        if not self._open[source, host]:
            del self._open[source, host]

    def hold(self, host: str, before: int, size: int) -> str | None:
        """Count the incomplete frame of a connection, which grows or is gone.

        Args:
            host: Address of the sender.
            before: Bytes that it had when this was last called; 0 at first.
            size: Bytes that it has now.

        Returns:
            Why the sender cannot hold that much, if it cannot.
        """
        free = self._limits.FREE_BYTES
        change = (size if size > free else 0) - (before if before > free else 0)
        if not change:
            return None
        self.held += change
        self._held[host] += change
        if not self._held[host]:
            del self._held[host]
        most = self._limits.held_bytes
        if change > 0 and self._held[host] > most // 2:
            return f"senders at {host} hold {most // 2} bytes of incomplete frames"
        if change > 0 and self.held > most:
            return f"senders hold {most} bytes of incomplete frames"
        return None
