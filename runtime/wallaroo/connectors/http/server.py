"""The server of one HTTP source: it answers a request when its messages are on disk."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import structlog
from starlette.types import Receive, Scope, Send

from wallaroo.connectors.http.requests import (
    Unacceptable,
    check_head,
    check_origin,
    digest,
    header,
    key_of,
    messages_of,
)
from wallaroo.connectors.http.resolve import HTTPSource
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.http.connection import Admission
from wallaroo.gateway.http.origins import Origins
from wallaroo.gateway.http.serving import Serving
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import Opener, StreamName, StreamPosition
from wallaroo.gateway.limits import Load

_RETRY_S = 1
"""Seconds after which a client may try again when the journal is full, or a table is not read."""
_ACCEPT_S = 30.0
"""Seconds that a client waits for the disk."""
IDLE_S = 75
"""Seconds that a connection stays open between requests, if the limits set none."""
_STREAM = "HTTP"
_KEYS = 100_000
"""Keys of requests that are remembered, some 25 MiB of memory: those of the last minutes at least,
as long as clients make fewer than some hundred requests a second."""
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_NO_CONTENT = 204
_SHOWN = {"Access-Control-Expose-Headers": "idempotent-replayed, retry-after"}
"""What pages see of an answer besides its status and its text."""
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type, idempotency-key",
    "Access-Control-Max-Age": "600",
}

log = structlog.get_logger("wallaroo.gateway")


class _Disconnected(Exception):
    """The client has gone before the end of its body."""


class _Accepted(NamedTuple):
    """Messages that are on disk, for the answer to their client."""

    messages: int
    """How many the request has."""
    again: bool = False
    """Whether an earlier request with the same key had them."""


class _Keyed(NamedTuple):
    """A request that had a key."""

    body: bytes
    """Digest of its messages."""
    messages: int
    """Number of its messages."""
    last: int = 0
    """Number of the last one; 0 if they were on disk when the gateway started."""


class HTTPServer:
    """Serves one source in a thread of its own.

    The messages of all its requests are one stream of the acknowledged protocol to the journal,
    which reports how much of the stream is on disk.

    Args:
        context: What the gateway gives.
        index: Index of the source.
        source: The source.
        listener: Socket that is bound to its address.
    """

    def __init__(
        self, context: ConnectorContext, index: int, source: HTTPSource, listener: socket.socket
    ) -> None:
        self._index, self._source = index, source
        self._journal, limits, tls = context.journal, context.limits, context.source_tls
        self._tables = context.tables
        self._limits = limits
        self._origins = Origins(source.origins, source.host, secure=tls is not None)
        self._load = Load(limits)
        self.name = StreamName(index, _STREAM)
        """The stream of all messages."""
        self._taken = self._journal.stream_positions.open(
            self.name, Opener(None, _STREAM), {self.name}
        )
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Requests by the number of their last message, in order."""
        self._keyed = {
            key: _Keyed(body, messages)
            for key, (body, messages) in self._journal.request_keys(index).items()
        }
        """The last requests that had keys, the oldest first."""
        self._paused = False
        """Whether the journal is full; only the loop changes it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving = Serving(
            self._answer,
            listener,
            tls,
            f"HTTP {source.name}",
            Admission(limits, {"source": source.name}),
            int(limits.idle_s) or IDLE_S,
            limits.frame_s or None,
            answers_half_closed=True,
        )

    @property
    def connections(self) -> int:
        """Connections open now."""
        return self._serving.connections

    def stop(self) -> None:
        """Accept no more requests; returns when those in progress are answered."""
        self._serving.stop()

    def resume(self) -> None:
        """Take messages: the journal has room again; for any thread."""
        self._call(self._note_room)

    def accepted(self, last: int) -> None:
        """Answer the requests whose messages are on disk, up to number *last*; for any thread."""
        self._call(partial(self._note_accepted, last))

    def _call(self, act: Callable[[], None]) -> None:
        """Let the loop call *act*, after what it does now."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(act)

    def _note_room(self) -> None:
        self._paused = False

    def _note_accepted(self, last: int) -> None:
        while self._waiting and self._waiting[0][0] <= last:
            _, on_disk = self._waiting.popleft()
            on_disk.set_result(None)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; for uvicorn."""
        self._loop = asyncio.get_running_loop()
        status, text, more = 202, "", self._allowing(scope)
        try:
            check_origin(scope, self._origins)
            if _is_preflight(scope, self._source.path):
                status, more = _NO_CONTENT, more | _PREFLIGHT
            else:
                messages, again = await self._take(scope, receive)
                text = f"{messages} accepted\n"
                more |= {"Idempotent-Replayed": "true"} if again else {}
        except Unacceptable as refused:
            status, text, more = refused.status, f"{refused}\n", more | refused.headers
        except _Disconnected:
            return
        headers = [(n.lower().encode(), v.encode("latin-1")) for n, v in more.items()]
        body = text.encode()
        if status != _NO_CONTENT:
            headers += [_TEXT, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _allowing(self, scope: Scope) -> dict[str, str]:
        """Headers by which a browser lets a page of an allowed origin read the answer."""
        origin = header(scope, b"origin")
        return {} if origin is None else self._origins.headers(origin) | _SHOWN

    async def _take(self, scope: Scope, receive: Receive) -> _Accepted:
        """Take the messages of a request; returns how many, once they are on disk.

        Raises:
            Unacceptable: It has none that can be taken.
            _Disconnected: The client has gone before the end of its body.
        """
        most = self._source.framing.max_frame
        check_head(scope, self._source.path, most)
        key = key_of(scope)
        if self._tables.awaited_by(self._index):
            reason = "A table is read before messages are taken; try again later."
            raise Unacceptable(503, reason, {"Retry-After": str(_RETRY_S)})
        if self._paused:
            raise self._full()
        body = await self._body(scope, receive, most)
        messages = messages_of(scope, body)
        data = self._source.framing.frame_all(messages)
        known = None if key is None else self._known(key, data)
        if known is not None:
            await self._until(self._on_disk(known.last))
            return _Accepted(known.messages, again=True)
        if self._paused:  # meanwhile
            raise self._full()
        self._taken += len(messages)
        on_disk = asyncio.get_running_loop().create_future()
        self._waiting.append((self._taken, on_disk))
        keyed = None if key is None else self._remember(key, data, len(messages))
        position: StreamPosition = (self.name, self._taken)
        if not self._journal.submit(self._index, len(messages), data, position, request=keyed):
            self._paused = True
            log.info("source paused", source=self._source.name, reason="the journal is full")
        await self._until(on_disk)
        return _Accepted(len(messages))

    def _known(self, key: bytes, data: bytes) -> _Keyed | None:
        """The request that came with *key*; None if it is not known.

        Raises:
            Unacceptable: It had other messages.
        """
        known = self._keyed.get(key)
        if known is not None and known.body != digest(data):
            raise Unacceptable(422, "This Idempotency-Key was used for other messages.")
        return known

    def _remember(self, key: bytes, data: bytes, messages: int) -> KeyedRequest:
        """Note the last request, which has *key*, and forget the first if there are too many."""
        forgets = next(iter(self._keyed)) if len(self._keyed) >= _KEYS else None
        if forgets is not None:
            del self._keyed[forgets]
        body = digest(data)
        self._keyed[key] = _Keyed(body, messages, self._taken)
        return KeyedRequest(self._index, key, body, messages, forgets)

    def _on_disk(self, number: int) -> asyncio.Future[None] | None:
        """Is done when message *number* is on disk; None if it is."""
        return next((on_disk for last, on_disk in self._waiting if last == number), None)

    async def _until(self, on_disk: asyncio.Future[None] | None) -> None:
        """Wait until what was handed in is on disk.

        Raises:
            Unacceptable: That takes too long.
        """
        if on_disk is None:
            return
        try:
            async with asyncio.timeout(_ACCEPT_S):
                await asyncio.shield(on_disk)  # others may wait for it, too
        except TimeoutError:
            reason = "The disk did not take the messages in time; they may be accepted later."
            raise Unacceptable(503, reason) from None

    async def _body(self, scope: Scope, receive: Receive, most: int) -> bytes:
        pieces, size, complete = list[bytes](), 0, False
        peer = scope["client"][0] if scope["client"] is not None else ""
        try:
            async with asyncio.timeout(self._limits.frame_s or None):
                while not complete:
                    event = await receive()
                    if event["type"] == "http.disconnect":
                        raise _Disconnected
                    piece, complete = event.get("body", b""), not event.get("more_body")
                    problem = self._load.hold(peer, size, size + len(piece))
                    size += len(piece)
                    if problem is not None:
                        raise Unacceptable(503, f"Try again later: {problem}.")
                    if size > most:
                        reason = f"The body has more than {most} bytes, which is the limit."
                        raise Unacceptable(413, reason)
                    pieces.append(piece)
        except TimeoutError:
            reason = f"The body was not complete after {self._limits.frame_s:g} s."
            raise Unacceptable(408, reason, {"Connection": "close"}) from None
        finally:
            self._load.hold(peer, size, 0)
        return b"".join(pieces)

    def _full(self) -> Unacceptable:
        reason = "Too many messages wait to be processed; try again later."
        return Unacceptable(429, reason, {"Retry-After": str(_RETRY_S)})


def _is_preflight(scope: Scope, path: str) -> bool:
    """Whether a browser asks whether a page may send messages."""
    asked = header(scope, b"access-control-request-method")
    return scope["method"] == "OPTIONS" and scope["path"] == path and asked is not None
