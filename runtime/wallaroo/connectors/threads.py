"""Threads of sources and sinks: what fails is logged, and tried again after a growing pause."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from wallaroo.dataflow.tracebacks import place_of_failure
from wallaroo.errors import SKIP_LOST, RuntimeFailure
from wallaroo.gateway.connector import ConnectorContext, SourceConnector, SourceState
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.outbox.outbox import RefusedOutput
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.metrics.samples import Sample
from wallaroo.model.endpoints import Endpoint, Sink, Source
from wallaroo.model.order import times_function
from wallaroo.observability.logs import Repeats
from wallaroo.user_code.exceptions import describe_error, short_repr
from wallaroo.wire.records import FailedMessage
from wallaroo.wire.refusals import guarded

AHEAD_BYTES = 64 * 1024**2
"""Bytes of a source's messages in the journal at most."""
IDLE_WAIT_S = 0.5
"""Wait for outputs, or for room in the journal, before looking whether to stop."""
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 30.0
"""Pause before something is tried again: doubles from the first to the most."""
STOP_S = 5.0
"""Time that a thread has, at a stop, to finish what it does."""

_PositionT = TypeVar("_PositionT")
_EndpointT = TypeVar("_EndpointT", bound=Endpoint)
_SourceT = TypeVar("_SourceT", bound=Source)
_SinkT = TypeVar("_SinkT", bound=Sink)

log = structlog.get_logger("wallaroo.gateway")


class SourceThreads(SourceConnector):
    """Reads several sources, each in a separate thread.

    Args:
        kind: Class of what reads one.
        context: What the gateway gives.
        sources: The sources by their indices in the application.
    """

    def __init__(
        self,
        kind: type[SourceThread[_SourceT, Any]],
        context: ConnectorContext,
        sources: Mapping[int, _SourceT],
    ) -> None:
        self._readers = {index: kind(context, index, one) for index, one in sources.items()}

    async def start(self) -> None:
        """See `SourceConnector.start`."""
        for reader in self._readers.values():
            reader.start()

    async def stop(self) -> None:
        """See `SourceConnector.stop`."""
        stopping = (asyncio.to_thread(reader.stop) for reader in self._readers.values())
        await asyncio.gather(*stopping)

    def status(self, index: int) -> SourceState:
        """See `SourceConnector.status`."""
        return self._readers[index].state

    def samples(self) -> list[Sample]:
        """See `Reporting.samples`."""
        return [sample for reader in self._readers.values() for sample in reader.samples()]


class ConnectorThread(ABC, Generic[_EndpointT]):
    """Reads a source or writes a sink; what fails is tried again after a growing pause.

    Args:
        index: Index of the source or sink in the application.
        endpoint: The source or sink.
    """

    KIND: ClassVar[str]
    """Which of both it is, as the log says it."""
    VERB: ClassVar[str]
    """What it does with the other side, likewise."""
    MEANWHILE: ClassVar[Mapping[str, str]] = {}
    """What happens to messages or outputs while it fails, likewise."""
    LONGEST_PAUSE_S: ClassVar[float] = math.inf
    """Longest pause before it is tried again, if shorter than that of all."""
    WAITS: ClassVar[str]
    """Why it has not ended some time after a stop."""

    def __init__(self, index: int, endpoint: _EndpointT) -> None:
        self._index, self._endpoint = index, endpoint
        self._stopping = threading.Event()
        self._handing_over = threading.Lock()
        self._is_over = False
        """Whether nothing more is passed to the journal or the outbox."""
        self._repeats = Repeats()
        self.ended = False
        """Whether there is nothing more to do."""
        self.problem: str | None = None
        """Why it failed last; None if it has got on since."""
        self._thread = threading.Thread(target=self._run, name=f"{self.KIND}-{index}", daemon=True)

    def stop(self) -> None:
        """Stop; what has not been handed over when this returns never is."""
        if self._is_over:
            return
        self._stopping.set()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self._interrupt()
        if self._thread.is_alive():
            log.warning(f"{self.KIND} does not stop", **self._names(), reason=self.WAITS)
        with self._handing_over:
            self._is_over = True

    @abstractmethod
    def _work(self) -> None:
        """Read or write until stopped, or to the end."""

    @property
    @abstractmethod
    def _progress(self) -> object:
        """What changes as it gets on."""

    def _reason(self, error: BaseException) -> str | None:
        """What *error*, which the work has raised, means; None if there is nothing to tell."""
        return described(error)

    def _hand_over(self, tell: Callable[[], object]) -> bool:
        """Call *tell*, which tells journal or outbox something; returns False after a stop."""
        with self._handing_over:
            if not self._is_over:
                tell()
            return not self._is_over

    def _interrupt(self) -> None:
        """End a call that keeps the thread from stopping, if that is possible."""

    def _run(self) -> None:
        pause = RETRY_FIRST_S
        while not (self._stopping.is_set() or self.ended):
            progress = self._progress
            try:
                self._work()
            except BaseException as error:  # this thread continues, whatever it is
                if (reason := self._reason(error)) is None:
                    continue
                pause = RETRY_FIRST_S if progress != self._progress else pause
                self._failed(reason, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, RETRY_MOST_S, self.LONGEST_PAUSE_S)

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        """Note a failure, after which the work is tried again in *next_try_s*."""
        self.problem = reason
        if self._repeats.show(reason):
            about = {**self._names(), "reason": reason, "next_try_s": next_try_s}
            log.warning(f"{self.KIND} failed", **about, **self.MEANWHILE)

    def _names(self) -> dict[str, Any]:
        return {self.KIND: self._endpoint.name, self.VERB: self._endpoint.where}


class SourceThread(ConnectorThread[_SourceT], Generic[_SourceT, _PositionT]):
    """Reads one source.

    Args:
        context: What the gateway gives.
        index: Index of the source in the application.
        source: The source.
    """

    KIND, VERB = "source", "reads"

    def __init__(self, context: ConnectorContext, index: int, source: _SourceT) -> None:
        super().__init__(index, source)
        self._source, self._journal = source, context.journal
        self._tables = context.tables
        self._turn = context.turns.get(index)
        """When it is its turn, among sources that are read in the order of time."""
        self._times_of = context.times.get(index) or times_function(source)
        """Finds the times of its messages; None if it was given no function for that."""
        self._reached: _PositionT | None = None
        """Where reading would resume, as last passed to the journal; None for the beginning."""
        self.failures = 0
        """Times that reading has failed since the last message."""

    @property
    def state(self) -> SourceState:
        """What a connector reports about it."""
        return SourceState(self._source.where, self.ended, self.failures, self.problem)

    def samples(self) -> Iterable[Sample]:
        """Metrics of its own; for any thread."""
        return ()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    @abstractmethod
    def _read(self) -> None:
        """Take messages until they end, or until stopped."""

    def _work(self) -> None:
        self._read()
        if not (self._stopping.is_set() or self.ended):
            self._well()
            self._tables.note_read(self._index)
            self._end()
            log.info("source ended", **self._names())

    def _end_early(self, reason: str) -> None:
        """Note that the source cannot be read any further."""
        self.failures, self.problem = self.failures + 1, reason
        self._end()
        log.error("source ended early", **self._names(), reason=reason)

    @property
    def _progress(self) -> object:
        return self._reached

    def _end(self) -> None:
        self.ended = True
        if self._turn is not None:
            self._turn.ends()

    def _tables_are_read(self) -> bool:
        """Wait for the tables that are read first; returns whether they are, before a stop."""
        if self._tables.awaited_by(self._index):
            self._well()
        while not self._stopping.is_set():
            if self._tables.wait(self._index, IDLE_WAIT_S):
                return True
            if self._turn is not None:
                self._turn.goes_on()
        return False

    def _has_room(self) -> bool:
        """Whether the journal has room for more messages of this source, now or after a while."""
        if self._turn is not None:
            self._turn.goes_on()
        return self._journal.wait_for_room(self._index, AHEAD_BYTES, IDLE_WAIT_S)

    def _hand_in(self, submit: Callable[[], object], reached: _PositionT) -> bool:
        """Call *submit*, which hands in messages up to *reached*; returns False after a stop."""
        taken = self._hand_over(submit)
        if taken:
            self._reached = reached
        return taken

    def _well(self) -> None:
        """Note that reading goes on."""
        self.failures, self.problem = 0, None

    def _failed(self, reason: str, next_try_s: float = 0.0) -> None:
        self.failures += 1
        super()._failed(reason, next_try_s)


class SinkThread(ConnectorThread[_SinkT]):
    """Writes one sink's outputs; what is not delivered at a stop stays in the outbox.

    A subclass starts the thread at the end of its constructor.

    Args:
        context: What the gateway gives.
        index: Index of the sink in the application.
        sink: The sink.
    """

    KIND, VERB, MEANWHILE = "sink", "writes", {"outputs": "wait on disk"}

    def __init__(self, context: ConnectorContext, index: int, sink: _SinkT) -> None:
        super().__init__(index, sink)
        self._sink, self._outbox = sink, context.outbox
        self._taken = 0
        """Position in the outbox up to which outputs are safe."""
        self._began = 0.0
        """When it took the outputs that it is writing."""

    @property
    def _progress(self) -> object:
        return self._taken

    def _not_below_delivered(self, found: int, what: str, *, skips: bool) -> int:
        """The number of the next output of a destination, from 0 on.

        Reports a destination that has fewer outputs than were delivered to it.

        Args:
            found: How many outputs it has.
            what: What it is that has them.
            skips: Whether to go on without those that are missing.

        Raises:
            RuntimeFailure: It has fewer, and the sink is not to go on.
        """
        delivered = self._outbox.delivered_to(self._index)
        if found >= delivered:
            return found
        missing = f"{found + 1:,} to {delivered:,}" if found + 1 < delivered else f"{delivered:,}"
        reason = (
            f"{what} has the first {found:,} outputs, and {delivered:,} were delivered: was it "
            f"restored from a backup, or did it fail over? Output {missing} is no longer kept"
        )
        if not skips:
            remedy = f"restore what has them; to continue with the next output, {SKIP_LOST}"
            msg = f"{reason}; {remedy}"
            raise RuntimeFailure(msg)
        log.warning("outputs lost", **self._names(), reason=reason, effect="the sink continues")
        return delivered

    def _next(self) -> Delivery | None:
        """Outputs that are published and not settled; None if there are none for a while."""
        found = self._outbox.next(self._index, self._taken, IDLE_WAIT_S)
        self._began = time.monotonic()
        return found

    def _gathered(self, most_bytes: int) -> list[Delivery]:
        """Such outputs in order, until they have *most_bytes*; none if there are none."""
        found: list[Delivery] = []
        size, delivery = 0, self._next()
        while delivery is not None:
            found.append(delivery)
            size += len(delivery.outputs.data)
            if size >= most_bytes:
                break
            delivery = self._outbox.next(self._index, delivery.position, 0.0)
        return found

    def _settle(self, position: int, refused: Sequence[RefusedOutput] = ()) -> None:
        """Note that outputs up to *position* in the outbox are safe, or *refused*."""
        if refused and self._outbox.refusals is Policy.STOP:
            letter = refused[0].letter
            self.problem = (
                f"stopped because of --on-error: {letter.step}, {letter.place}: {letter.error}; "
                f"the output: {letter.message}"
            )
            self._stopping.set()
            self._outbox.stopped = self.problem
            self._outbox.on_stopped()
            return
        self.problem = None  # before anybody can see that they are delivered
        took_s = time.monotonic() - self._began
        delivered = functools.partial(
            self._outbox.delivered, self._index, position, refused=refused, took_s=took_s
        )
        self._hand_over(delivered)
        self._taken = position

    def _set_aside(self, number: int, output: bytes, reason: str) -> RefusedOutput:
        """Make the dead letter of an *output*; *number* is its number, from 1 on."""
        if self._repeats.show(("set aside", reason)):
            log.warning("output refused", **self._names(), number=number, reason=reason)
        step, place = f"sink {self._sink.name}", f"output {number}"
        letter = FailedMessage("", step, place, reason, short_repr(output))
        return RefusedOutput(letter.storable(), guarded(output))


def numbered(deliveries: Iterable[Delivery]) -> dict[int, bytes]:
    """The outputs of *deliveries* by their numbers, from 0 on."""
    return {
        number: output
        for delivery in deliveries
        for number, output in enumerate(delivery.outputs.cut(), delivery.number - 1)
    }


def described(error: BaseException) -> str:
    """What user code has raised, and where."""
    place = place_of_failure(error)
    return describe_error(error) + (f" ({place})" if place else "")
