"""Sending messages to a source of an application, and knowing what it has accepted.

A plain TCP connection tells a sender nothing of what became of its bytes. `Sender` speaks the
acknowledged protocol (`docs/protocol.md`) over the same port: its messages are numbered, and a
message is acknowledged once the gateway has it on disk. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from wallaroo.api.addresses import parse_address
from wallaroo.errors import FrameError, RuntimeFailure, UsageError
from wallaroo.wire.acknowledged import (
    BATCH_BYTES,
    PAYLOADS,
    PREAMBLE,
    VERSION,
    Ack,
    Frame,
    FrameCutter,
    Hello,
    Messages,
    Refusal,
    Welcome,
    check_stream,
    encode,
)

_HELD_BYTES = 16 * 1024**2
"""Bytes of messages that wait for their acknowledgement at most; then `send` waits."""
_PAUSE_FIRST_S, _PAUSE_MOST_S = 0.05, 2.0
"""Pause before a connection is tried again: doubles from the first to the most."""
_CONNECT_TIMEOUT_S = 5.0
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_MAX_ANSWER = 64 * 1024
"""Bytes of a frame that the gateway may send."""
_SILENCE_MS = 30_000
"""A gateway whose machine acknowledges nothing for so long is taken for lost."""


class Sender:
    """Sends a stream of messages to a source, each accepted exactly once; a context manager.

    Messages get the numbers 1, 2, 3, … in the order of `send`. A connection that breaks is made
    anew, and what was not acknowledged is sent again; the gateway drops what it has. A sender that
    was itself started anew finds in `acknowledged` how many messages of its stream are accepted,
    and goes on with the next one. Its methods may be called from several threads.

    Args:
        address: `HOST:PORT` of the source.
        stream: Name of the stream, the same after every restart; one sender at a time uses it.
        timeout_s: Seconds that the gateway may be away, or take nothing, before `send` and `flush`
            give up.
        tls: Makes the connection secret and the gateway show who it is; None for plain TCP.

    Raises:
        UsageError: *address* or *stream* cannot be used.

    Example:
        with Sender("127.0.0.1:7010", "orders of monday") as sender:
            for order in orders[sender.acknowledged:]:
                sender.send(order)
    """

    def __init__(
        self,
        address: str,
        stream: str,
        *,
        timeout_s: float = 60.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        host, port = parse_address(address, "address")
        if (problem := check_stream(stream)) is not None:
            raise UsageError(problem)
        self._address = (host, int(port))
        self._stream = stream
        self._timeout_s = timeout_s
        self._tls = tls
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        """Framed messages to send, in order."""
        self._flight: deque[bytes] = deque()
        """Framed messages that this connection has been given, and that are not acknowledged."""
        self._held_bytes = 0
        self._acknowledged = 0
        self._limit = 0
        self._known = False
        """Whether the gateway has told how far the stream had got."""
        self._connected = False
        self._heard_at = time.monotonic()
        """When the gateway last took something, or there was nothing for it to take."""
        self._trouble = "there was no answer"
        self._fatal: str | None = None
        self._closing = False
        self._idle = False
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"sender {stream}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        try:
            with self._changed:
                self._wait_until(lambda: self._known)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    @property
    def acknowledged(self) -> int:
        """Number of the last message that the gateway has on disk, 0 before the first."""
        with self._changed:
            return self._acknowledged

    @property
    def refusal(self) -> str | None:
        """Why the gateway refuses the stream, which is final; None while it does not."""
        with self._changed:
            return self._fatal

    def send(self, payload: bytes) -> int:
        """Send one message; returns its number.

        Waits while the gateway gives no credit. The message is sent at once or with those that
        follow it; it is accepted when `acknowledged` has reached its number.

        Raises:
            RuntimeFailure: The gateway refused the stream, or took nothing for too long.
        """
        framed = PAYLOADS.frame(payload)
        with self._changed:
            self._wait_until(lambda: self._known and self._has_room() and self._fatal is None)
            if not self._flight and not self._queue:
                self._heard_at = time.monotonic()
            self._queue.append(framed)
            self._held_bytes += len(framed)
            if self._idle:
                self._idle = False
                self._wake()
            return self._acknowledged + len(self._flight) + len(self._queue)

    def flush(self) -> None:
        """Wait until all that was sent is accepted.

        Raises:
            RuntimeFailure: The gateway refused the stream, or took nothing for too long.
        """
        with self._changed:
            self._wait_until(lambda: self._known and not self._flight and not self._queue)

    def close(self) -> None:
        """Close the connection; what is not acknowledged may be accepted or not."""
        with self._changed:
            self._closing = True
            self._wake()
        self._thread.join()
        self._wake_out.close()
        self._wake_in.close()

    def _has_room(self) -> bool:
        held = len(self._flight) + len(self._queue)
        return held == 0 or (
            self._held_bytes < _HELD_BYTES and self._acknowledged + held < self._limit
        )

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait, with the lock, until *condition* holds."""
        while not condition():
            if self._fatal is not None:
                host, port = self._address
                msg = f"{host}:{port} does not take the stream {self._stream!r}: {self._fatal}"
                raise RuntimeFailure(msg)
            if self._closing:
                msg = f"the sender of the stream {self._stream!r} is closed"
                raise RuntimeFailure(msg)
            left = self._heard_at + self._timeout_s - time.monotonic()
            if left <= 0:
                host, port = self._address
                waiting = len(self._flight) + len(self._queue)
                msg = (
                    f"{host}:{port} took nothing for {self._timeout_s:.0f} s: {self._trouble}; "
                    f"{waiting} message(s) behind number {self._acknowledged} are not acknowledged"
                )
                raise RuntimeFailure(msg)
            self._changed.wait(left)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    def _run(self) -> None:
        pause = _PAUSE_FIRST_S
        while not self._closing and self._fatal is None:
            try:
                with socket.create_connection(self._address, _CONNECT_TIMEOUT_S) as connection:
                    if connection.getsockname() == connection.getpeername():
                        raise ConnectionRefusedError  # TCP has connected a free port to itself
                    if self._tls is None:
                        self._serve(connection)
                    else:
                        host, _ = self._address
                        with self._tls.wrap_socket(connection, server_hostname=host) as secured:
                            self._serve(secured)
                    pause = _PAUSE_FIRST_S
            except ssl.SSLCertVerificationError as error:
                self._note_trouble(error.verify_message)
            except OSError as error:
                self._note_trouble(error.strerror or str(error) or "the connection was refused")
            except FrameError as error:
                self._note_trouble(f"it does not speak the protocol: {error}")
            if self._connected:
                pause = _PAUSE_FIRST_S
            with self._changed:
                self._connected = False
                self._changed.wait_for(lambda: self._closing, pause)
            pause = min(2 * pause, _PAUSE_MOST_S)

    def _note_trouble(self, reason: str) -> None:
        with self._changed:
            self._trouble = reason

    def _serve(self, connection: socket.socket) -> None:
        """Speak the protocol until the connection, or the sender, ends."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_MS)
        connection.setblocking(False)
        cutter = FrameCutter(_MAX_ANSWER)
        pending = memoryview(PREAMBLE + encode(Hello(VERSION, self._stream)))
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_in, selectors.EVENT_READ)
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while not self._closing and self._fatal is None:
                if not pending:
                    pending = memoryview(self._next())
                    interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if pending else 0)
                    selector.modify(connection, interest)
                for key, events in selector.select():
                    if key.fileobj is self._wake_in:
                        self._wake_in.recv(4096)
                        continue
                    if events & selectors.EVENT_WRITE:
                        with contextlib.suppress(*_LATER):
                            pending = pending[connection.send(pending) :]
                    if events & selectors.EVENT_READ:
                        with contextlib.suppress(*_LATER):
                            while True:  # TLS may hold more than the socket shows
                                data = connection.recv(1 << 16)
                                if not data:
                                    msg = "the connection was closed"
                                    raise ConnectionError(msg)
                                for frame in cutter.feed(data):
                                    self._hear(frame)

    def _next(self) -> bytes:
        """What is to be sent now."""
        with self._changed:
            taken: list[bytes] = []
            size = 0
            if self._connected:
                room = self._limit - self._acknowledged - len(self._flight)
                while self._queue and room > len(taken):
                    size += len(self._queue[0])
                    if taken and size > BATCH_BYTES:
                        break
                    taken.append(self._queue.popleft())
            self._idle = not taken
            if not taken:
                return b""
            first = self._acknowledged + len(self._flight) + 1
            self._flight += taken
        return encode(Messages(first, b"".join(taken)))

    def _hear(self, frame: Frame) -> None:
        with self._changed:
            before = self._known, self._acknowledged
            match frame:
                case Welcome(last=last, limit=limit) if not self._connected:
                    self._fatal = self._begin(last)
                    self._limit = limit
                case Ack(last=last, limit=limit) if self._connected:
                    if not self._settle(last):
                        msg = f"message {last} is acknowledged, which was not sent"
                        raise FrameError(msg)
                    self._limit = limit
                case Refusal(reason):
                    self._fatal = reason
                case _:
                    msg = f"a {type(frame).__name__} frame out of place"
                    raise FrameError(msg)
            if (self._known, self._acknowledged) != before:
                self._heard_at = time.monotonic()
            self._changed.notify_all()

    def _begin(self, last: int) -> str | None:
        """Go on behind message *last* on a new connection; tells why that cannot be."""
        if not self._known:
            self._known, self._acknowledged = True, last
        elif last < self._acknowledged:
            return (
                f"it has the messages up to {last} only, and had acknowledged those up to "
                f"{self._acknowledged}: was its journal replaced?"
            )
        elif not self._settle(last):
            return f"it has the messages up to {last}, which were not sent from here"
        self._connected = True
        self._flight.extend(self._queue)
        self._queue, self._flight = self._flight, deque()
        return None

    def _settle(self, last: int) -> bool:
        """Let go of the messages up to *last*; False if there are not so many."""
        while self._acknowledged < last:
            if not self._flight:
                return False
            self._held_bytes -= len(self._flight.popleft())
            self._acknowledged += 1
        return True
