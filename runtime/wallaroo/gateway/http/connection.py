"""Connections of uvicorn: limits for their number and for the time of heads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping

import h11
import structlog
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from wallaroo.gateway.limits import Load, SourceLimits
from wallaroo.observability.logs import Repeats

log = structlog.get_logger()


_CONNECTION = "connection"
"""Name under which the state of a request has its connection."""


def connection_of(scope: Scope) -> HTTPConnection:
    """The connection of the request that has *scope*."""
    connection: HTTPConnection = scope["state"][_CONNECTION]
    return connection


class Admission:
    """Counts the connections of a server.

    uvicorn's own limit answers 503 to all connections while too many are open; here, those that
    were admitted go on.

    Args:
        limits: How many there may be.
        names: What messages call the server.
    """

    def __init__(self, limits: SourceLimits, names: Mapping[str, str]) -> None:
        self._load = Load(limits)
        self._names = names
        self._repeats = Repeats()

    def admit(self, host: str) -> bool:
        """Count a new connection from *host*; returns False if there are too many."""
        reason = self._load.admit(0, host)
        if reason is not None and self._repeats.show(reason):
            log.warning("connection refused", **self._names, peer=host, reason=reason)
        return reason is None

    def dismiss(self, host: str) -> None:
        """Count a connection that was admitted as ended."""
        self._load.dismiss(0, host)


class HTTPConnection(H11Protocol):
    """A connection that is closed if the head of a request is not complete in time.

    The time begins with the connection, and later with the first byte of the next request; between
    requests uvicorn's own limit holds. A malformed body ends the connection.
    """

    head_s: float | None = None
    """Seconds for a head; None for no limit."""
    admission: Admission | None = None
    """Admits it; None for no limit."""
    answers_half_closed = False
    """Whether a sender that sends no more still gets its answer, as it may have gone."""
    _admitted: str | None = None
    """Address of its peer, if it was admitted."""
    _half_closed = False
    """Whether its sender sends no more."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.app_state = {_CONNECTION: self}
        if self.admission is not None:
            host = self.client[0] if self.client else ""
            if not self.admission.admit(host):
                transport.write(_TOO_MANY)
                transport.close()
                return
            self._admitted = host
        self._time_head()

    def data_received(self, data: bytes) -> None:
        """Take *data*, which may complete a head or begin one."""
        super().data_received(data)
        self._time_head()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer a request that was complete before its sender closed its side."""
        cycle = self.cycle
        waits = cycle is not None and not (cycle.more_body or cycle.response_complete)
        by_tls = self.transport.get_extra_info("sslcontext") is not None  # asyncio closes it
        if by_tls or not waits or not self.answers_half_closed:
            return None
        self._half_closed = True
        return True

    def on_response_complete(self) -> None:
        """Take the next request, or end a connection whose sender has closed its side."""
        super().on_response_complete()
        if self._half_closed and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._stop_timer()
        if self.admission is not None and self._admitted is not None:
            self.admission.dismiss(self._admitted)

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


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Inside the block, uvicorn does not log as errors that requests in progress are cancelled."""
    uvicorn_log = logging.getLogger("uvicorn.error")
    level = uvicorn_log.level
    uvicorn_log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        uvicorn_log.setLevel(level)


_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 28\r\n\r\ntoo many connections; retry\n"
)


def limited(
    head_s: float | None, admission: Admission | None = None, *, answers_half_closed: bool = False
) -> type[HTTPConnection]:
    """The class of the connections of a server.

    Args:
        head_s: Seconds for a head; None for no limit.
        admission: Admits connections; None for no limit.
        answers_half_closed: Whether a sender that sends no more still gets its answer.
    """
    own = {"head_s": head_s, "admission": admission, "answers_half_closed": answers_half_closed}
    return type("Limited", (HTTPConnection,), own)
