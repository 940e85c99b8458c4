"""A client that sends messages to a source and confirms that they are accepted.

On a plain TCP connection, a sender cannot know which messages have been accepted. `Sender` uses the
acknowledged protocol (`docs/protocol.md`) on the same port: messages are numbered, and the gateway
acknowledges a message once it is on disk.
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
"""Maximum size of unacknowledged messages, in bytes; at this limit, `send` waits."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.05, 2.0
"""Pause before reconnecting: doubles from the minimum to the maximum."""
_CONNECT_TIMEOUT_S = 5.0
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_MAX_ANSWER = 64 * 1024
"""Maximum size of a frame from the gateway, in bytes."""
_SILENCE_MS = 30_000
"""Time without TCP acknowledgements after which the connection counts as lost."""


class Sender:
    """Sends a stream of messages to a source, each accepted exactly once; a context manager.

    Messages are numbered 1, 2, 3, … in the order of `send`. After a broken connection, the sender
    reconnects and repeats unacknowledged messages; the gateway drops repeated ones. After a restart
    of the sending program, `acknowledged` is the number of accepted messages of the stream; resume
    with the next one. The methods are thread-safe.

    Args:
        address: `HOST:PORT` of the source.
        stream: Name of the stream, which must stay the same after a restart; only one sender may
            use it at a time.
        timeout_s: Seconds for which the gateway may be unavailable, or accept nothing, before
            `send` and `flush` fail.
        tls: TLS context, which encrypts the connection and verifies the gateway; None for plain
            TCP.

    Raises:
        UsageError: *address* or *stream* is invalid.

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
        """Framed messages sent on this connection but not acknowledged."""
        self._held_bytes = 0
        self._acknowledged = 0
        self._limit = 0
        self._known = False
        """Whether the gateway has reported the last message that it has."""
        self._connected = False
        self._progress_at = time.monotonic()
        """When the gateway last accepted a message, or had nothing to accept."""
        self._problem = "no answer"
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
        """Number of the last message that the gateway has on disk; 0 before the first.

        Blocks until the gateway has reported it once.

        Raises:
            RuntimeFailure: The gateway rejected the stream, or did not answer in time.
        """
        with self._changed:
            self._wait_until(lambda: self._known or self._closing)
            return self._acknowledged

    @property
    def refusal(self) -> str | None:
        """Why the gateway refuses the stream, which is final; None while it does not."""
        with self._changed:
            return self._fatal

    def send(self, payload: bytes) -> int:
        """Send one message and return its number.

        Blocks while the gateway grants no credit. The message may be sent together with later ones;
        it is accepted once `acknowledged` reaches its number.

        Raises:
            RuntimeFailure: The gateway rejected the stream, or accepted nothing for too long.
        """
        framed = PAYLOADS.frame(payload)
        with self._changed:
            self._wait_until(lambda: self._known and self._has_room() and self._fatal is None)
            if not self._flight and not self._queue:
                self._progress_at = time.monotonic()
            self._queue.append(framed)
            self._held_bytes += len(framed)
            if self._idle:
                self._idle = False
                self._wake()
            return self._acknowledged + len(self._flight) + len(self._queue)

    def flush(self) -> None:
        """Wait until all messages are accepted.

        Raises:
            RuntimeFailure: The gateway rejected the stream, or accepted nothing for too long.
        """
        with self._changed:
            self._wait_until(lambda: self._known and not self._flight and not self._queue)

    def close(self) -> None:
        """Close the connection; unacknowledged messages may or may not be accepted."""
        with self._changed:
            self._closing = True
            self._wake()
        self._thread.join()
        self._wake_out.close()
        self._wake_in.close()

    def _has_room(self) -> bool:
        pending = len(self._flight) + len(self._queue)
        return pending == 0 or (
            self._held_bytes < _HELD_BYTES and self._acknowledged + pending < self._limit
        )

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until *condition* holds; the caller must hold the lock."""
        while not condition():
            if self._fatal is not None:
                host, port = self._address
                msg = f"{host}:{port} rejected the stream {self._stream!r}: {self._fatal}"
                raise RuntimeFailure(msg)
            if self._closing:
                msg = f"the sender of the stream {self._stream!r} is closed"
                raise RuntimeFailure(msg)
            left = self._progress_at + self._timeout_s - time.monotonic()
            if left <= 0:
                host, port = self._address
                waiting = len(self._flight) + len(self._queue)
                msg = (
                    f"{host}:{port} accepted nothing for {self._timeout_s:.0f} s: {self._problem}; "
                    f"{waiting} message(s) after number {self._acknowledged} are not acknowledged"
                )
                raise RuntimeFailure(msg)
            self._changed.wait(left)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    def _run(self) -> None:
        pause = _MIN_PAUSE_S
        while not self._closing and self._fatal is None:
            try:
                with socket.create_connection(self._address, _CONNECT_TIMEOUT_S) as connection:
                    if connection.getsockname() == connection.getpeername():
                        raise ConnectionRefusedError  # TCP can connect a free port to itself
                    if self._tls is None:
                        self._serve(connection)
                    else:
                        host, _ = self._address
                        with self._tls.wrap_socket(connection, server_hostname=host) as secured:
                            self._serve(secured)
                    pause = _MIN_PAUSE_S
            except ssl.SSLCertVerificationError as error:
                self._set_problem(error.verify_message)
            except OSError as error:
                self._set_problem(error.strerror or str(error) or "the connection was refused")
            except FrameError as error:
                self._set_problem(f"the answer violates the protocol: {error}")
            if self._connected:
                pause = _MIN_PAUSE_S
            with self._changed:
                self._connected = False
                self._changed.wait_for(lambda: self._closing, pause)
            pause = min(2 * pause, _MAX_PAUSE_S)

    def _set_problem(self, reason: str) -> None:
        with self._changed:
            self._problem = reason

    def _serve(self, connection: socket.socket) -> None:
        """Run the protocol until the connection ends or the sender is closed."""
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
                            while True:  # TLS may buffer data that the socket does not report
                                data = connection.recv(1 << 16)
                                if not data:
                                    msg = "the connection was closed"
                                    raise ConnectionError(msg)
                                for frame in cutter.feed(data):
                                    self._handle(frame)

    def _next(self) -> bytes:
        """Return the next bytes to send; empty if there are none."""
        with self._changed:
            batch: list[bytes] = []
            size = 0
            if self._connected:
                credit = self._limit - self._acknowledged - len(self._flight)
                while self._queue and credit > len(batch):
                    size += len(self._queue[0])
                    if batch and size > BATCH_BYTES:
                        break
                    batch.append(self._queue.popleft())
            self._idle = not batch
            if not batch:
                return b""
            first = self._acknowledged + len(self._flight) + 1
            self._flight += batch
        return encode(Messages(first, b"".join(batch)))

    def _handle(self, frame: Frame) -> None:
        with self._changed:
            previous = self._known, self._acknowledged
            match frame:
                case Welcome(last=last, limit=limit) if not self._connected:
                    self._fatal = self._resume(last)
                    self._limit = limit
                case Ack(last=last, limit=limit) if self._connected:
                    if not self._drop_acknowledged(last):
                        msg = f"message {last} was acknowledged but never sent"
                        raise FrameError(msg)
                    self._limit = limit
                case Refusal(reason):
                    self._fatal = reason
                case _:
                    msg = f"unexpected {type(frame).__name__} frame"
                    raise FrameError(msg)
            if (self._known, self._acknowledged) != previous:
                self._progress_at = time.monotonic()
            self._changed.notify_all()

    def _resume(self, last: int) -> str | None:
        """Resume after message *last* on a new connection; returns why that is impossible."""
        if not self._known:
            self._known, self._acknowledged = True, last
        elif last < self._acknowledged:
            return (
                f"it only has the messages up to {last}, but had acknowledged those up to "
                f"{self._acknowledged}: was its journal replaced?"
            )
        elif not self._drop_acknowledged(last):
            return f"it has the messages up to {last}, but this sender has not sent them"
        self._connected = True
        self._flight.extend(self._queue)
        self._queue, self._flight = self._flight, deque()
        return None

    def _drop_acknowledged(self, last: int) -> bool:
        """Drop the messages up to *last*; returns False if there are not that many."""
        while self._acknowledged < last:
            if not self._flight:
                return False
            self._held_bytes -= len(self._flight.popleft())
            self._acknowledged += 1
        return True
