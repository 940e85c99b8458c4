"""A server for HTTP in a thread of its own, on a socket that is bound already.

Sources, sinks, the internal API and the dashboard are served by it.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from wallaroo.gateway.http.connection import Admission, limited, stopping

_STOP_S = 5
"""Seconds that requests in progress have at a stop: as many as a stop spends on TCP senders."""
OPTIONS: Mapping[str, Any] = {
    "loop": "asyncio",
    "log_config": None,
    "log_level": "error",  # its warnings, one for each odd request, name neither source nor peer
    "access_log": False,
    "interface": "asgi3",
    "lifespan": "off",
    "ws": "none",
    "proxy_headers": False,
    "server_header": False,
}
"""Options of uvicorn that a plain one is compared with in benchmarks."""
HEAD_BYTES = 64 * 1024
"""Bytes of the largest head of a request, and of a body that nobody has asked for yet."""
HEAD_S = 10.0
"""As many as a sender has to begin TLS."""
_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
"""What a request target in absolute form has before its path."""

_TWO_LENGTHS_TEXT = b"Send either a Content-Length or, by HTTP/1.1, a Transfer-Encoding.\n"
_TWO_LENGTHS = [
    (b"content-type", b"text/plain"),
    (b"content-length", b"%d" % len(_TWO_LENGTHS_TEXT)),
    (b"connection", b"close"),
]


class Serving:
    """Lets *app* answer the requests at *listener*, until it is stopped.

    Args:
        app: Answers one request after the other.
        listener: The socket.
        tls: Encrypts connections; None for plain HTTP.
        name: Name of the thread.
        admission: Admits connections, and further ones get the answer 503; None for no limit.
        idle_s: Seconds that a connection stays open between requests.
        head_s: Seconds until the head of a request must be complete; None for no limit.
        stop_s: Seconds that requests in progress have at a stop.
        answers_half_closed: Whether a sender that sends no more still gets its answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        name: str,
        admission: Admission | None,
        idle_s: int,
        head_s: float | None = HEAD_S,
        *,
        stop_s: int | None = None,
        answers_half_closed: bool = False,
    ) -> None:
        config = uvicorn.Config(
            _checked(app),
            http=limited(head_s, admission, answers_half_closed=answers_half_closed),
            **OPTIONS,
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=idle_s,
            timeout_graceful_shutdown=_STOP_S if stop_s is None else stop_s,
        )
        config.load()
        config.ssl = tls
        self._server = uvicorn.Server(config)
        self._socket = listener
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name=name, daemon=True
        )
        self._thread.start()

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._server.server_state.connections)

    @property
    def stopping(self) -> bool:
        """Whether it is being stopped."""
        return self._server.should_exit

    def stop(self) -> None:
        """Accept no more requests; returns when those in progress are answered."""
        with stopping():
            self._server.should_exit = True
            self._thread.join()
        self._socket.close()


def _checked(app: ASGIApp) -> ASGIApp:
    """Let *app* see the path alone of targets in absolute form (RFC 9112, section 3.2.2).

    A request whose length a proxy may have read differently ends its connection, as what follows
    its body may be a part of it (request smuggling; section 6.1).
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope["headers"]}
        if b"transfer-encoding" in names and (
            b"content-length" in names or scope["http_version"] == "1.0"
        ):
            await send({"type": "http.response.start", "status": 400, "headers": _TWO_LENGTHS})
            await send({"type": "http.response.body", "body": _TWO_LENGTHS_TEXT})
            return
        target = scope.get("raw_path", b"")
        if (found := _ABSOLUTE.match(target)) is not None:
            scope["raw_path"] = target[found.end() :] or b"/"
            scope["path"] = unquote(scope["raw_path"].decode("ascii"))
        await app(scope, receive, send)

    return answer
