"""Threads of sources and sinks: what fails is logged, and tried again after a growing pause."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

import structlog

from wallaroo.dataflow.records import FailedMessage
from wallaroo.dataflow.tracebacks import place_of_failure
from wallaroo.gateway.connectors.base import SourceState
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.outbox.outbox import Outbox, Refused
from wallaroo.model.raised import describe_error, short_repr
from wallaroo.observability.logs import Repeats

RETRY_FIRST_S, RETRY_MOST_S = 0.1, 30.0
"""Pause before something is tried again: doubles from the first to the most."""
STOP_S = 5.0
"""Time that a thread has, at a stop, to finish what it does."""

_PositionT = TypeVar("_PositionT")

log = structlog.get_logger("wallaroo.gateway")


class SourceThread(ABC, Generic[_PositionT]):
    """Reads one source.

    Args:
        index: Index of the source in the application.
        name: Name of the source.
        where: What it reads.
        journal: Takes the messages, and knows where to resume.
    """

    WAITS: ClassVar[str]
    """Why it has not ended some time after a stop."""

    def __init__(self, index: int, name: str, where: str, journal: Journal) -> None:
        self._index, self._name, self._journal = index, name, journal
        self._stopping = threading.Event()
        self._handing_in = threading.Lock()
        """Held while messages are handed in, which does not happen after a stop."""
        self._reached: _PositionT | None = None
        """Where reading would resume, as the journal was told; None for the beginning."""
        self._repeats = Repeats()
        self.where = where
        self.ended = False
        """Whether the source has come to its end."""
        self.failures = 0
        """Times that reading has failed since the last message."""
        self.problem: str | None = None
        """Why it failed last."""
        self._thread = threading.Thread(target=self._run, name=f"source-{index}", daemon=True)

    @property
    def state(self) -> SourceState:
        """What a connector reports about it."""
        return SourceState(self.where, self.ended, self.failures, self.problem)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages; the journal has been given all that were taken."""
        with self._handing_in:
            if self._stopping.is_set():
                return
            self._stopping.set()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            log.warning("source does not stop", **self._names(), reason=self.WAITS)

    @abstractmethod
    def _read(self) -> None:
        """Take messages until they end, or until stopped."""

    def _reason(self, error: BaseException) -> str | None:
        """What *error*, which reading has raised, means; None if there is nothing to tell."""
        return described(error)

    def _is_final(self, _error: BaseException) -> bool:
        """Whether the source cannot be read beyond *_error*."""
        return False

    def _run(self) -> None:
        pause = RETRY_FIRST_S
        while not self._stopping.is_set():
            reached = self._reached
            try:
                self._read()
            except BaseException as error:  # this thread continues, whatever it is
                if (reason := self._reason(error)) is None:
                    continue
                pause = RETRY_FIRST_S if reached != self._reached else pause
                if self._is_final(error):
                    self._failed(reason, None)
                    self.ended = True
                    return
                self._failed(reason, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, RETRY_MOST_S)
            else:
                if not self._stopping.is_set():
                    self._well()
                    self.ended = True
                    log.info("source ended", **self._names())
                return

    def _hand_in(self, submit: Callable[[], object], reached: _PositionT) -> bool:
        """Call *submit*, which hands in messages up to *reached*; returns False after a stop."""
        with self._handing_in:
            if self._stopping.is_set():
                return False
            submit()
            self._reached = reached
        return True

    def _well(self) -> None:
        """Note that reading goes on."""
        self.failures, self.problem = 0, None

    def _failed(self, reason: str, next_try_s: float | None = 0.0) -> None:
        """Note a failure, after which reading is tried again in *next_try_s*; None for never."""
        self.failures += 1
        self.problem = reason
        if next_try_s is None:
            log.error("source ended early", **self._names(), reason=reason)
        elif self._repeats.show(reason):
            log.warning("source failed", **self._names(), reason=reason, next_try_s=next_try_s)

    def _names(self) -> dict[str, str]:
        return {"source": self._name, "reads": self.where}


class SinkThread(ABC):
    """Writes one sink's outputs.

    Args:
        index: Index of the sink in the application.
        name: Name of the sink.
        where: What it writes.
        outbox: Where the outputs are.
    """

    WAITS: ClassVar[str]
    """Why it has not ended some time after a stop."""

    def __init__(self, index: int, name: str, where: str, outbox: Outbox) -> None:
        self._index, self._name, self._where, self._outbox = index, name, where, outbox
        self._stopping = threading.Event()
        self._settling = threading.Lock()
        """Held while outputs are noted as delivered, which does not happen after a stop."""
        self._taken = 0
        """Position in the outbox up to which outputs are safe."""
        self._repeats = Repeats()
        self.problem: str | None = None
        """Why outputs are not written now; None while they are."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{index}", daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop writing; what is not delivered stays in the outbox."""
        self._stopping.set()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            log.warning("sink does not stop", **self._names(), reason=self.WAITS)
            self._settling.acquire()  # for good: what it still writes does not count as delivered

    @abstractmethod
    def _write(self) -> None:
        """Write outputs as they are published, until stopped."""

    def _reason(self, error: BaseException) -> str | None:
        """What *error*, which writing has raised, means; None if there is nothing to tell."""
        return described(error)

    def _run(self) -> None:
        pause = RETRY_FIRST_S
        while not self._stopping.is_set():
            progress = self._progress()
            try:
                self._write()
            except BaseException as error:  # this thread continues, whatever it is
                if (reason := self._reason(error)) is None:
                    continue
                pause = RETRY_FIRST_S if progress != self._progress() else pause
                self._failed(reason, pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, RETRY_MOST_S)

    def _progress(self) -> int:
        """What grows as outputs are written."""
        return self._taken

    def _settle(self, position: int, refused: Sequence[Refused] = ()) -> None:
        """Note that outputs up to *position* in the outbox are safe, or *refused*."""
        self.problem = None  # before anybody can see that they are delivered
        with self._settling:
            self._outbox.delivered(self._index, position, refused=refused)
        self._taken = position

    def _set_aside(self, number: int, output: bytes, reason: str) -> Refused:
        """Make the dead letter of an *output*; *number* is its number, from 1 on."""
        if self._repeats.show(("set aside", reason)):
            log.warning("output set aside", **self._names(), number=number, reason=reason)
        step, place = f"sink {self._name}", f"output {number}"
        letter = FailedMessage("", step, place, reason, short_repr(output))
        return Refused(letter.storable(), output)

    def _failed(self, reason: str, next_try_s: float) -> None:
        self.problem = reason
        if self._repeats.show(reason):
            log.warning(
                "sink failed",
                **self._names(),
                reason=reason,
                next_try_s=next_try_s,
                outputs="wait on disk",
            )

    def _names(self) -> dict[str, str]:
        return {"sink": self._name, "writes": self._where}


def described(error: BaseException) -> str:
    """What user code has raised, and where."""
    place = place_of_failure(error)
    return describe_error(error) + (f" ({place})" if place else "")
