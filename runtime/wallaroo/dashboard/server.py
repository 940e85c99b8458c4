"""The dashboard over HTTP: a page, its content as server-sent events, and `/metrics`.

On a loopback address, anyone who can connect can read. On any other address, the token is required,
if there is one. With the token, the run can be paused and resumed, dead letters be changed, and the
histories of keys be shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from wallaroo.api.addresses import Address
from wallaroo.dashboard.access import Access, AccessRefused, TokenGate, check_change
from wallaroo.dashboard.dead_letters import DeadLetterRoutes
from wallaroo.dashboard.histories import HistoryRoutes
from wallaroo.dashboard.json_responses import json_response
from wallaroo.dashboard.look_ups import StateRoutes
from wallaroo.dashboard.monitor import Watch
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.http.connection import Admission
from wallaroo.gateway.http.serving import HEAD_S, Serving
from wallaroo.gateway.limits import SourceLimits
from wallaroo.metrics.exposition import CONTENT_TYPE, exposition
from wallaroo.system.binding import listening_socket

_STATIC = Path(__file__).parent / "static"
_KEEP_ALIVE_S = 5.0
"""Seconds without news after which a comment keeps the connection alive."""
_IDLE_S = 5
"""Seconds that a connection stays open between requests."""
_CLOSE_S = 1
"""Seconds that open pages have to notice that the server stops."""
_MOST_STREAMS = 200
"""Event streams at a time; further pages ask for each snapshot."""
_LIMITS = SourceLimits(connections=1_000, connections_per_peer=500)
"""A page has a connection for its events, and up to five for all else."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class DashboardServer:
    """Serves *watch* in separate threads.

    Args:
        address: Where to listen; port 0 lets the system choose.
        watch: Its results are shown.
        token: Required to change anything, and to read unless the address is a loopback address;
            None if nobody may change anything, and everyone may read.
        names: Names besides its address that the dashboard may be called by.

    Raises:
        OSError: The address cannot be bound.
    """

    def __init__(
        self, address: Address, watch: Watch, token: str | None, names: Sequence[str] = ()
    ) -> None:
        self.watch = watch
        """Its results are shown."""
        self._streams = 0
        self._coming: asyncio.Task[dict[str, Any] | None] | None = None
        """Waits for the next snapshot, for all streams."""
        self._encoded = (0.0, "")
        """Time of the last snapshot that was sent, and its event."""
        host, port = address
        self._socket = listening_socket(host, int(port))
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{port}/"
        """URL of the page."""
        local = host in {"127.0.0.1", "::1"}
        self._gate = gate = None if token is None else TokenGate(token)
        self._histories = HistoryRoutes(
            watch.watched.explaining,
            watch.watched.gateway.history,
            gate,
            shows_args=local or gate is not None,
        )
        application = Starlette(
            routes=[
                Route("/", self._page),
                Route("/application", self._application),
                Route("/events", self._events),
                Route("/snapshot", self._snapshot),
                Route("/metrics", self._metrics),
                Route("/pause", self._change(watch.watched.pause.pause), methods=["POST"]),
                Route("/resume", self._change(watch.watched.pause.resume), methods=["POST"]),
                *StateRoutes(watch.watched.engine.look_up, watch.states).routes(),
                *self._histories.routes(),
                *DeadLetterRoutes(watch.watched.gateway, gate, self._histories.of_letter).routes(),
                Mount("/static", StaticFiles(directory=_STATIC)),
            ],
            middleware=[
                Middleware(
                    Access,
                    local=local,
                    names=[address.host, *names],
                    gate=None if local else gate,
                )
            ],
            exception_handlers={RuntimeFailure: _failed, AccessRefused: _refused},
        )
        admission = Admission(_LIMITS, {"server": "dashboard"})
        self._serving = Serving(
            application,
            self._socket,
            None,
            "dashboard",
            admission,
            _IDLE_S,
            HEAD_S,
            stop_s=_CLOSE_S,
        )

    def close(self) -> None:
        """Stop polling and serving. Requests in progress are cancelled."""
        self.watch.stop()
        self._histories.stop()
        self._serving.stop()

    def _change(self, act: Callable[[str], bool]) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that pauses or resumes the run, if the request has the token."""

        async def handle(request: Request) -> Response:
            check_change(request, self._gate)
            by = request.client.host if request.client else "the dashboard"
            changed = await run_in_threadpool(act, by)
            self.watch.poll_now()
            return JSONResponse({"changed": changed})

        return handle

    async def _page(self, _request: Request) -> Response:
        return FileResponse(_STATIC / "index.html", headers=_HEADERS)

    async def _application(self, _request: Request) -> Response:
        described = self.watch.application() | {"changeable": self._gate is not None}
        return json_response(described | {"histories": self._histories.described()})

    async def _snapshot(self, _request: Request) -> Response:
        latest = await self._after(0.0)
        return json_response(latest, 503 if latest is None else 200)

    async def _metrics(self, _request: Request) -> Response:
        text = await run_in_threadpool(lambda: exposition(self.watch.watched.samples()))
        return Response(text, media_type=CONTENT_TYPE)

    async def _after(self, at: float) -> dict[str, Any] | None:
        """The first snapshot later than *at*; None if there is none for a while.

        All who wait share one thread, so that many viewers leave threads to other requests.
        """
        latest = self.watch.now(at)
        if latest is not None:
            return latest
        if self._coming is None or self._coming.done():
            self._coming = asyncio.create_task(run_in_threadpool(self.watch.now, at, _KEEP_ALIVE_S))
        coming = self._coming
        await asyncio.wait({coming}, timeout=_KEEP_ALIVE_S)
        return coming.result() if coming.done() and not coming.cancelled() else None

    async def _events(self, request: Request) -> Response:
        if self._streams >= _MOST_STREAMS:
            return PlainTextResponse(f"{self._streams} pages are open: poll /snapshot", 503)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._stream(request), media_type="text/event-stream", headers=headers
        )

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        self._streams += 1
        try:
            async for event in self._news(request):
                yield event
        finally:
            self._streams -= 1

    async def _news(self, request: Request) -> AsyncIterator[str]:
        yield _event("history", self.watch.history())
        at = 0.0
        with contextlib.suppress(asyncio.CancelledError):
            while not (self.watch.stopping or self._serving.stopping):
                latest = await self._after(at)
                if await request.is_disconnected():
                    return
                if latest is None or latest["time"] <= at:
                    yield ": nothing new\n\n"
                else:
                    at = latest["time"]
                    if self._encoded[0] != at:
                        self._encoded = (at, _event("snapshot", latest))
                    yield self._encoded[1]


def _failed(_request: Request, error: Exception) -> Response:
    return PlainTextResponse(str(error), status_code=503)


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AccessRefused)
    return error.response


def _event(name: str, content: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(content, default=str)}\n\n"
