"""The gateway's internal API: JSON over HTTP, for drivers and commands.

A call is `POST /v1/ACTION` with an argument, and is answered by its result, or by `error`, a code
for programs, and `message`. Each has a connection of its own. A client that got no answer repeats
its call, so repeated calls have no further effect.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.database import lacks_room
from wallaroo.gateway.http.connection import connection_of
from wallaroo.gateway.http.serving import Serving
from wallaroo.gateway.internal_api.auth import Authenticator, Declined
from wallaroo.gateway.internal_api.calls import AWAY, CALL_BYTES, FAILED, NO_ROOM, PATH, REFUSED
from wallaroo.gateway.internal_api.front import STRANGER_S, Front
from wallaroo.gateway.internal_api.leases import LeaseHeld
from wallaroo.gateway.internal_api.location import socket_in
from wallaroo.system.binding import listening_at, listening_socket, why_not_bound

MOST_CALLS = 1_000
"""Calls with the token at a time."""
_BODY_S = 10.0
"""Seconds until an argument must be complete."""
_BACKLOG = 128

Action = Callable[[dict[str, Any]], Any]
"""Takes and returns JSON values."""

log = structlog.get_logger("wallaroo.gateway")


class Service:
    """Serves one gateway's actions in a thread of its own.

    Args:
        location: Where to listen, see `location`.
        actions: The actions by name.
        authenticator: Decides which calls are answered.
        tls: Certificate and key; None for plain HTTP.
        stranger_s: Seconds until a connection must have brought a call with the token.
        most_calls: Calls with the token at a time.

    Raises:
        RuntimeFailure: The socket cannot be bound.
    """

    def __init__(
        self,
        location: str,
        actions: Mapping[str, Action],
        authenticator: Authenticator,
        tls: ssl.SSLContext | None = None,
        stranger_s: float = STRANGER_S,
        most_calls: int = MOST_CALLS,
    ) -> None:
        listener = _listening(location)
        address = listener.getsockname()
        self.port = int(address[1]) if isinstance(address, tuple) else 0
        """The port that is bound; 0 for a Unix socket."""
        self._actions = actions
        self._authenticator = authenticator
        self._calls, self._most_calls = 0, most_calls
        self._front = Front(listener, stranger_s)
        # the time of heads is that of strangers, and no connection takes another call
        self._serving = Serving(self._serve, self._front, tls, "internal API", None, 1, None)

    def shutdown(self) -> None:
        """Wait for the calls in progress, and stop serving."""
        self._serving.stop()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; for uvicorn."""
        status = 200
        try:
            content = await self._answer(Request(scope, receive))
        except Declined as declined:
            status = declined.status
            content = json.dumps({"error": declined.code, "message": str(declined)})
        except ClientDisconnect:
            return
        response = Response(content, status, {"Connection": "close"}, "application/json")
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> str:
        action = request.url.path.removeprefix(PATH)
        peer = request.client.host if request.client else ""
        self._authenticator.admit(request.headers, peer, action)
        transport = connection_of(request.scope).transport
        self._front.trust(transport.get_extra_info("socket").fileno())
        handler = self._actions.get(action)
        if handler is None or not request.url.path.startswith(PATH):
            raise Declined(404, FAILED, f"no action {action!r}")
        if request.method != "POST":
            raise Declined(405, FAILED, "actions are called by POST")
        if self._calls >= self._most_calls:
            raise Declined(503, AWAY, f"{self._calls} calls are in progress")
        self._calls += 1
        try:
            asked = _argument(await _body(request))
            return await run_in_threadpool(partial(_result, handler, asked))
        finally:
            self._calls -= 1


def _listening(location: str) -> socket.socket:
    path = socket_in(location)
    address = str(path) if path is not None else location.partition("://")[2]
    host, _, port = address.rpartition(":")
    try:
        if path is None:
            return listening_socket(host.strip("[]"), int(port), _BACKLOG)
        return listening_at(path, _BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = why_not_bound(error, host, "--listen")
        msg = f"the internal API cannot listen on {address}: {reason}"
        raise RuntimeFailure(msg) from error


async def _body(request: Request) -> bytes:
    """The argument of a call, as it comes.

    Raises:
        Declined: It is too large, or takes too long.
    """
    pieces, size = list[bytes](), 0
    too_large = Declined(413, FAILED, f"the argument has more than {CALL_BYTES:,} bytes")
    if int(request.headers.get("Content-Length", 0)) > CALL_BYTES:
        raise too_large
    try:
        async with asyncio.timeout(_BODY_S):
            async for piece in request.stream():
                size += len(piece)
                if size > CALL_BYTES:
                    raise too_large
                pieces.append(piece)
    except TimeoutError:
        reason = f"the argument was not complete after {_BODY_S:g} s"
        raise Declined(408, AWAY, reason) from None
    return b"".join(pieces)


def _argument(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Declined(400, FAILED, f"the argument is not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise Declined(400, FAILED, "the argument is not an object")
    return asked


def _result(handler: Action, asked: dict[str, Any]) -> str:
    """What *handler* returns, as JSON.

    Raises:
        Declined: It failed.
    """
    try:
        return json.dumps(handler(asked))
    except LeaseHeld as error:
        raise Declined(403, REFUSED, str(error)) from error
    except sqlite3.Error as error:
        if lacks_room(error):
            raise Declined(503, NO_ROOM, f"the disk has no room: {error}") from error
        raise Declined(500, FAILED, str(error)) from error
    except Exception as error:  # whatever it is, the caller is to know
        raise Declined(500, FAILED, str(error) or type(error).__name__) from error
