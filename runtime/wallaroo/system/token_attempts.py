"""Wrong tokens: how often an address may show one, and what the log says of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger("wallaroo.gateway")

_REPORT_EVERY_S = 1.0
"""Seconds between two lines in the log."""


class Attempts:
    """Counts wrong tokens: some of each peer at once, and then one every few seconds.

    Args:
        clock: Returns the time, in seconds.

    Example:
        >>> pace = Attempts(lambda: 100.0)
        >>> for _ in range(Attempts.AT_ONCE):
        ...     assert not pace.wait_s("10.0.0.1")
        ...     pace.note_wrong("10.0.0.1")
        >>> pace.wait_s("10.0.0.1"), pace.wait_s("10.0.0.2")
        (5.0, 0.0)
    """

    AT_ONCE = 10
    """Wrong tokens of a peer that are counted without a wait."""
    EVERY_S = 5.0
    """Seconds for each further one."""
    MOST_PEERS = 10_000
    """Peers that are remembered; beyond that, all are forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paid_until: dict[str, float] = {}
        """When all wrong tokens of a peer will have been paid for, at the pace, by peer."""

    def wait_s(self, peer: str) -> float:
        """Seconds until a wrong token of *peer* is counted again; 0 for now."""
        allowed = self._clock() + (self.AT_ONCE - 1) * self.EVERY_S
        return max(0.0, self._paid_until.get(peer, 0.0) - allowed)

    def note_wrong(self, peer: str) -> None:
        """Count a wrong token of *peer*."""
        if len(self._paid_until) >= self.MOST_PEERS:
            self._paid_until.clear()
        paid_until = max(self._clock(), self._paid_until.get(peer, 0.0))
        self._paid_until[peer] = paid_until + self.EVERY_S


class Guesses:
    """The wrong tokens at all ports that require the same token; for use by several threads.

    Args:
        clock: Returns the time, in seconds.

    Example:
        >>> from structlog.testing import capture_logs
        >>> guesses = Guesses(lambda: 100.0)
        >>> with capture_logs() as logs:
        ...     for _ in range(Attempts.AT_ONCE):
        ...         guesses.note_wrong("10.0.0.1", "the token is not this gateway's")
        >>> guesses.wait_s("10.0.0.1"), guesses.wait_s("10.0.0.2"), len(logs)
        (5.0, 0.0, 1)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pace = Attempts(clock)
        self._unreported = 0
        self._reported_at: float | None = None

    def wait_s(self, peer: str) -> float:
        """Seconds until a wrong token of the address *peer* is counted again; 0 for now."""
        with self._lock:
            return self._pace.wait_s(peer)

    def note_wrong(self, peer: str, reason: str, **about: str) -> None:
        """Count a wrong token of *peer*, or none, and log it, at most once a second."""
        with self._lock:
            self._pace.note_wrong(peer)
            self._unreported += 1
            now = self._clock()
            if self._reported_at is not None and now < self._reported_at + _REPORT_EVERY_S:
                return
            refused, self._unreported, self._reported_at = self._unreported, 0, now
        log.warning("call refused", reason=reason, peer=peer, refused=refused, **about)
