"""The viewers of a sink: each reads its history at its own pace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from wallaroo.connectors.http.requests import Unacceptable
from wallaroo.connectors.sse.access import Access
from wallaroo.connectors.sse.history import History
from wallaroo.connectors.sse.resolve import SSESink
from wallaroo.gateway.http.connection import Admission, connection_of
from wallaroo.gateway.http.serving import Serving
from wallaroo.gateway.limits import SourceLimits
from wallaroo.observability.logs import Repeats

_PIECE_BYTES = 64 * 1024
"""Most bytes that are handed to a connection at a time, if an event is not longer."""
_STALL_S = 30.0
"""Seconds for which a viewer may take nothing before it is disconnected."""
_HEARTBEAT_S = 15.0
"""Seconds without events after which a comment is sent, so that proxies keep the connection and a
viewer that has vanished is noticed."""
_RETRY_MS = 2000
"""Milliseconds after which a browser is to connect again."""
_IDLE_S = 5
"""Seconds that a connection without a request stays open."""
_OTHER_CONNECTIONS = 50
"""Connections besides those of viewers: refusals, and requests that begin."""
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # or nginx collects events
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "authorization, cache-control, last-event-id",
    "Access-Control-Max-Age": "600",
}

log = structlog.get_logger("wallaroo.gateway")


class Viewers:
    """Serves the events of one sink in a thread of its own.

    Args:
        sink: The sink.
        history: Its events.
        listener: Socket that is bound to its address.
        tls: Encrypts connections; None for plain HTTP.
        token: What viewers must send; None for nothing.
    """

    def __init__(
        self,
        sink: SSESink,
        history: History,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        token: str | None,
    ) -> None:
        self._sink, self._history = sink, history
        self._access = Access(sink, token, tls=tls is not None)
        self._waiting: set[asyncio.Event] = set()
        """What wakes each viewer; only the loop changes it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._called = threading.Event()
        """Whether the loop is going to wake the viewers."""
        self._stopping = False
        self._repeats = Repeats()
        self.disconnected = 0
        """Viewers that did not keep up with the outputs."""
        most = sink.viewers + _OTHER_CONNECTIONS
        self._serving = Serving(
            self._answer,
            listener,
            tls,
            f"SSE {sink.name}",
            Admission(SourceLimits(most, most), {"sink": sink.name}),
            _IDLE_S,
        )

    @property
    def count(self) -> int:
        """Viewers that are connected."""
        return len(self._waiting)

    def wake(self) -> None:
        """Send what the history has now; for any thread."""
        if self._loop is not None and not self._called.is_set():
            self._called.set()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """Send what the history has, then end the connections."""
        self._stopping = True
        self._called.clear()
        self.wake()
        self._serving.stop()

    def _wake(self) -> None:
        self._called.clear()
        for event in self._waiting:
            event.set()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; for uvicorn."""
        self._loop = asyncio.get_running_loop()
        request = Request(scope, receive)
        allowing = self._access.headers(request)
        response: Response
        try:
            self._access.check(request)
            if request.method == "OPTIONS":
                response = Response(status_code=204, headers=allowing | _PREFLIGHT)
            else:
                self._check_room()
                await self._stream(request, send, allowing)
                return
        except Unacceptable as refused:
            response = PlainTextResponse(f"{refused}\n", refused.status, allowing | refused.headers)
        await response(scope, receive, send)

    def _check_room(self) -> None:
        """Let one more viewer in.

        Raises:
            Unacceptable: There are too many.
        """
        if len(self._waiting) >= self._sink.viewers:
            reason = f"{self._sink.viewers} viewers are connected; try again later."
            raise Unacceptable(503, reason, {"Retry-After": "5"})

    async def _stream(self, request: Request, send: Send, allowing: dict[str, str]) -> None:
        """Send events until the viewer has gone, does not keep up, or the sink stops."""
        woken = asyncio.Event()
        self._waiting.add(woken)
        gone = asyncio.create_task(_until_gone(request))
        gone.add_done_callback(lambda _: woken.set())
        try:
            number, greeting = self._begin(request)
            headers = [(k.lower().encode(), v.encode()) for k, v in (_HEADERS | allowing).items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await _send(send, greeting)
            await self._follow(number, woken, gone, send)
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            self._note_slow(request, "stalled", f"took nothing for {_STALL_S:.0f} s")
            connection_of(request.scope).transport.abort()
        finally:
            self._waiting.discard(woken)
            gone.cancel()

    def _begin(self, request: Request) -> tuple[int, bytes]:
        """Number of the first output for a viewer, and what it is sent before."""
        retry = b"retry: %d\n" % _RETRY_MS
        last = request.headers.get("last-event-id") or request.query_params.get("last-event-id")
        known = self._history.number_of(last) if last else None
        first = self._history.first
        if known is not None and known + 1 >= first:
            return known + 1, retry + b"\n"
        number = self._history.next if known is None else first
        # where to resume if the connection ends before the first event
        begun = b"id: %b\n" % self._history.identifier(number - 1).encode()
        if not last:
            return number, retry + begun + b"\n"
        missed = None if known is None else first - known - 1
        said = json.dumps({"missed": missed, "next": number})
        return number, retry + b"\n" + begun + b"event: missed\ndata: %b\n\n" % said.encode()

    async def _follow(
        self, number: int, woken: asyncio.Event, gone: asyncio.Task[None], send: Send
    ) -> None:
        while not gone.done():
            woken.clear()
            stopping = self._stopping
            piece = self._history.since(number, _PIECE_BYTES)
            if piece is None:
                behind = self._history.first - number
                kept = self._sink.keep_bytes
                reason = (
                    f"the {behind} outputs that come next are no longer among the last {kept} "
                    "bytes (keep_bytes), because newer ones came faster than the viewer took them; "
                    "a larger keep_bytes bridges longer bursts"
                )
                self._note_slow(None, "overtaken", reason)
                await _send(send, b"event: closed\ndata: %b\n\n" % reason.encode())
                return
            number = piece.after
            if piece.data:
                await _send(send, piece.data)
            elif stopping:
                return
            else:
                try:
                    async with asyncio.timeout(_HEARTBEAT_S):
                        await woken.wait()
                except TimeoutError:
                    await _send(send, b":\n\n")

    def _note_slow(self, request: Request | None, kind: str, reason: str) -> None:
        self.disconnected += 1
        if self._repeats.show(kind):
            peer = (
                {} if request is None or request.client is None else {"peer": request.client.host}
            )
            log.warning("viewer disconnected", sink=self._sink.name, reason=reason, **peer)


async def _send(send: Send, data: bytes) -> None:
    """Hand *data* to the connection, once it has room.

    Raises:
        TimeoutError: The viewer does not take what it was sent before.
    """
    async with asyncio.timeout(_STALL_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(request: Request) -> None:
    """Return when the viewer has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
