"""The sinks' sockets: published outputs in order, once each, for as long as it takes.

Plain TCP does not report what a receiver has read. Linux does report how much of the sent data the
receiver's side has acknowledged: only that counts as delivered. When a connection breaks,
the outputs after the last acknowledged one are sent again on the next; an output that had been
acknowledged in part is sent again whole. While a receiver is away the outputs wait on disk. A
receiver of numbered outputs reports what it has: then only that counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable

import structlog

from wallaroo.connectors.tcp.in_flight import NOT_SENT, InFlight, NumberedInFlight
from wallaroo.connectors.tcp.numbering import remark_on_change
from wallaroo.connectors.tcp.receiver import check_intact, connected, problem_of, unacknowledged
from wallaroo.connectors.tcp.resolve import TCPSink
from wallaroo.errors import DamagedFile
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.observability.logs import Repeats
from wallaroo.system.failpoints import fault
from wallaroo.wire.numbered import NUMBER, sequenced

_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 2.0
"""Pause before a connection is tried again: doubles from the first to the most."""
_WORKS_S = 60.0
"""A connection that lasts this long works, even if there is nothing to deliver."""
_ACK_POLL_S = 0.005
"""Pause between looks at what was acknowledged, while something is not."""
_IDLE_LOOK_S = 0.5
"""Pause between looks whether the connection is broken, while there is nothing to send."""
_WIND_DOWN_S = 2.0
"""Time that a receiver has, at a stop, to take the outputs in flight."""
_MOST_IN_FLIGHT = 64
"""Pieces of outputs, of about 1 MiB, that are kept in memory until they are acknowledged."""

log = structlog.get_logger("wallaroo.gateway")


def open_sink(context: ConnectorContext, index: int, sink: TCPSink) -> TCPSender:
    """Start to deliver the outputs of *sink*, which has this index in the application."""
    remark_on_change(index, sink, context.outbox)
    return TCPSender(context, index, sink, asyncio.get_running_loop())


class TCPSender:
    """Sends one sink's outputs, in the gateway's event loop.

    Args:
        context: What the gateway gives.
        index: Index of the sink in the application.
        sink: The sink.
        loop: The event loop.
    """

    def __init__(
        self, context: ConnectorContext, index: int, sink: TCPSink, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._tls = context.sink_tls
        self._surely_acknowledged = 0
        """Bytes sent when nothing was last in flight: with TLS, no more is known."""
        self._on_failure, self._outbox = context.on_failure, context.outbox
        self._index, self._sink, self._loop = index, sink, loop
        self._loop_thread: int | None = None
        self._stopping = asyncio.Event()
        self._connection: socket.socket | None = None
        self._lost: asyncio.Future[None] | None = None
        """Fails when the connection breaks."""
        self._unsent: deque[memoryview] = deque()
        """What the connection has not taken yet, of what is in flight."""
        self._is_writing = False
        """Whether the loop tells when the connection takes more."""
        self._look: asyncio.TimerHandle | None = None
        """The next look at what is acknowledged."""
        self._in_flight = NumberedInFlight if sink.sequenced else InFlight
        self._flight: deque[InFlight] = deque()
        """Given to the connection, and not acknowledged whole."""
        self._taken = 0
        """Position in the outbox up to which outputs were taken."""
        self._given = self._sent = 0
        """Bytes given to the connection, and those that it has taken."""
        self._answers = b""
        """The start of a number that the receiver of numbered outputs has sent."""
        self._answered = 0
        """Number of the last output that it has acknowledged."""
        self._progressed = False
        """Whether this connection has delivered something."""
        self._since = time.monotonic()
        """When it was made."""
        self._pause = 0.0
        """Pause before the next connection: grows while connections deliver nothing."""
        self._repeats = Repeats()
        """Of what happened since something was delivered."""
        self.problem: str | None = "not connected yet"
        """Why outputs are not sent now; None while they are."""
        self._run_ended = asyncio.run_coroutine_threadsafe(self._run(), loop)

    def stop(self) -> None:
        """Stop sending; what is not delivered stays in the outbox. Not for the loop's thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._run_ended.result()

    async def _run(self) -> None:
        self._loop_thread, sink = threading.get_ident(), self._sink
        self._outbox.on_added(self._index, self._added)
        try:
            while not await self._is_stopped(self._pause):
                try:
                    connection = await asyncio.to_thread(connected, sink.host, sink.port, self._tls)
                except (OSError, UnicodeError) as error:
                    self._failed("receiver away", error)
                    continue
                try:
                    await self._serve(connection)
                except OSError as error:
                    self._note_acknowledged(connection)
                    if self._progressed or time.monotonic() - self._since > _WORKS_S:
                        self._pause, self._repeats = 0.0, Repeats()
                        self._tell("receiver lost", error)
                    else:
                        self._failed("receiver lost", error)
                finally:
                    self._leave(connection)
        except DamagedFile as error:
            self._on_failure(error)

    async def _is_stopped(self, within_s: float) -> bool:
        if within_s and not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), within_s)
        return self._stopping.is_set()

    def _failed(self, event: str, error: OSError | UnicodeError) -> None:
        """Wait longer before the next connection: this one delivered nothing."""
        self._pause = min(max(2 * self._pause, _RETRY_FIRST_S), _RETRY_MOST_S)
        self._tell(event, error)

    def _tell(self, event: str, error: OSError | UnicodeError) -> None:
        self.problem = problem_of(error)
        if self._repeats.show(event):
            log.warning(
                event,
                sink=self._sink.name,
                address=self._sink.where,
                reason=self.problem,
                outputs="wait on disk",
                next_try_s=self._pause,
            )

    # --- a connection ----------------------------------------------------------------------------

    async def _serve(self, connection: socket.socket) -> None:
        """Send outputs as they are published, until stopped; raises OSError when it breaks."""
        self.problem = None
        if self._repeats.show("receiver connected"):
            log.info("receiver connected", sink=self._sink.name, address=self._sink.where)
        self._given = self._sent = self._surely_acknowledged = 0
        self._progressed, self._since = False, time.monotonic()
        self._connection, self._lost = connection, self._loop.create_future()
        if self._sink.sequenced:
            self._answers = b""
            name = self._outbox.numbering(self._sink.name).encode()
            self._give(memoryview(sequenced(0, [name])))
            self._loop.add_reader(connection, self._guarded, self._hear)
        for sent in self._flight:  # what the last connection left unacknowledged
            self._give_again(sent)
        self._guarded(self._pump)
        while not self._lost.done() and not await self._is_stopped(_IDLE_LOOK_S):
            self._guarded(self._look_at)
        if self._lost.done():
            return self._lost.result()
        await self._wind_down()
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Close the connection."""
        self._connection = None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._loop.remove_reader(connection)
        self._loop.remove_writer(connection)
        self._is_writing = False
        self._unsent.clear()
        connection.close()

    def _added(self) -> None:
        """There are outputs; for any thread."""
        if threading.get_ident() == self._loop_thread:
            self._guarded(self._pump)
        else:
            self._loop.call_soon_threadsafe(self._guarded, self._pump)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do *work* with the connection, if there is one; note if it breaks."""
        if self._connection is None or self._lost is None or self._lost.done():
            return
        try:
            work()
        except (OSError, DamagedFile) as error:
            self._lost.set_exception(error)

    def _pump(self) -> None:
        """Give the connection what is published, as far as it takes it."""
        while len(self._flight) < _MOST_IN_FLIGHT and not self._unsent:
            if self._stopping.is_set():
                return
            delivery = self._outbox.next(self._index, self._taken, 0.0)
            if delivery is None:
                break
            self._taken = delivery.position
            self._flight.append(self._in_flight(delivery))
            self._give_again(self._flight[-1])
        if self._flight and self._look is None:
            self._look = self._loop.call_later(_ACK_POLL_S, self._guarded, self._look_again)

    def _give_again(self, sent: InFlight) -> None:
        sent.start = self._given
        self._give(sent.rest)

    def _give(self, data: memoryview) -> None:
        """Send *data*, now or when the connection takes it."""
        self._given += len(data)
        self._unsent.append(data)
        if not self._is_writing:
            self._send()

    def _send(self) -> None:
        """Send what the connection takes; the loop goes on when it takes more."""
        connection = self._connection
        assert connection is not None
        while self._unsent:
            try:
                count = connection.send(self._unsent[0])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if not self._is_writing:
                    self._is_writing = True
                    self._loop.add_writer(connection, self._guarded, self._send_more)
                return
            self._sent += count
            if count < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][count:]
            else:
                self._unsent.popleft()
            fault("sink-in-mid-delivery")

    def _send_more(self) -> None:
        self._send()
        if not self._unsent:
            assert self._connection is not None
            self._is_writing = False
            self._loop.remove_writer(self._connection)
            self._pump()

    # --- what is delivered -----------------------------------------------------------------------

    def _look_again(self) -> None:
        self._look = None
        self._look_at()
        self._pump()

    def _look_at(self) -> None:
        """Note what is acknowledged, or that the connection is broken."""
        connection = self._connection
        assert connection is not None
        check_intact(connection)
        self._settle(self._acknowledged(connection))

    async def _wind_down(self) -> None:
        """Before a stop, give the receiver a moment to acknowledge what it was sent."""
        give_up = time.monotonic() + _WIND_DOWN_S
        while self._flight and time.monotonic() < give_up:
            await asyncio.sleep(_ACK_POLL_S)
            self._guarded(self._look_at)
            if self._lost is None or self._lost.done():
                return

    def _acknowledged(self, connection: socket.socket) -> int:
        """Bytes of this connection that the receiver's side has acknowledged, or numbers."""
        if self._sink.sequenced:
            return self._answered
        left = unacknowledged(connection)
        if self._tls is None:
            return self._sent - left
        if not left and not self._unsent:
            self._surely_acknowledged = self._sent
        return self._surely_acknowledged

    def _hear(self) -> None:
        """Take the numbers that the receiver sends."""
        assert self._connection is not None
        try:
            while data := self._connection.recv(4096):
                self._answers += data
            msg = "the receiver closed the connection"
            raise ConnectionError(msg)
        except (BlockingIOError, ssl.SSLWantReadError):
            pass  # no more for now
        finally:
            self._note_answers()
        self._settle(self._answered)
        self._pump()

    def _note_answers(self) -> None:
        whole = len(self._answers) // NUMBER.size * NUMBER.size
        if whole:
            (last,) = NUMBER.unpack_from(self._answers, whole - NUMBER.size)
            self._answers = self._answers[whole:]
            # a gateway before this one may have sent more than it has noted as delivered
            if last > self._answered and last > self._outbox.published_to(self._index):
                msg = f"the receiver acknowledged output {last}, which it was not sent"
                raise ConnectionError(msg)
            self._answered = max(self._answered, last)

    def _settle(self, acknowledged: int) -> None:
        """Note in the outbox which outputs are delivered."""
        position = 0
        while self._flight and self._flight[0].acknowledged_by(acknowledged):
            position = self._flight.popleft().position
        if position:
            self._progressed = True
            self._outbox.delivered(self._index, position)

    def _note_acknowledged(self, connection: socket.socket) -> None:
        """Before a broken connection is let go: note what its other side has of each delivery."""
        try:
            acknowledged = self._acknowledged(connection)
        except OSError:  # it reports no more
            acknowledged = self._answered
        self._settle(acknowledged)
        for sent in self._flight:
            before = sent.done
            sent.note(acknowledged)
            self._progressed = self._progressed or sent.done > before
            sent.start = NOT_SENT
