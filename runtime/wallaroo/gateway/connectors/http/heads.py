"""Connections of uvicorn with a time limit for request heads, which end at malformed bodies."""

from __future__ import annotations

import asyncio
import contextlib

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedHeads(H11Protocol):
    """A connection that is closed if the head of a request is not complete in time.

    The time begins with the connection, and later with the first byte of the next request; between
    requests uvicorn's own limit holds.
    """

    head_s: float | None = None
    """Seconds for a head; None for no limit."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._time_head()

    def data_received(self, data: bytes) -> None:
        """Take *data*, which may complete a head or begin one."""
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._stop_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP.

        If it is the body of a request, its answer, which can no longer be sent, is dropped.
        """
        with contextlib.suppress(h11.LocalProtocolError):  # an answer has begun
            super().send_400_response(msg)
        self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _time_head(self) -> None:
        """Let the time of a head run if one is awaited, and end it otherwise."""
        awaited = self.cycle is None or self.cycle.response_complete
        # a request that was answered at once has started uvicorn's own limit
        if not awaited or self.timeout_keep_alive_task is not None or self.transport.is_closing():
            self._stop_timer()
        elif self._timer is None and self.head_s is not None:
            self._timer = self.loop.call_later(self.head_s, self.timeout_keep_alive_handler)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def timed_heads(head_s: float | None) -> type[TimedHeads]:
    """The protocol for connections of a server.

    Args:
        head_s: Seconds for a head; None for no limit.
    """
    return type("TimedHeads", (TimedHeads,), {"head_s": head_s})
