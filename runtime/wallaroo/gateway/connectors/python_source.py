"""Sources that Python code reads: messages into the journal, each with its position.

The code belongs to the application: what it raises is logged with its place, and reading resumes
where it was after a growing pause. A source reads ahead of the engine only to a limit, however much
room the journal has: messages that can be read again need not wait on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
from collections.abc import Mapping
from typing import Any

import structlog

from wallaroo.dataflow.tracebacks import place_of_failure
from wallaroo.errors import FrameError
from wallaroo.gateway.connectors.base import SourceConnector, SourceState
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.model.application import CustomSource
from wallaroo.model.raised import describe_error
from wallaroo.observability.logs import Repeats

_AHEAD_BYTES = 64 * 1024**2
"""Bytes of a source's messages in the journal at most: two large batches."""
_IDLE_S = 0.05
"""Pause after a source has reported that it has no messages now."""
_ROOM_WAIT_S = 0.5
"""Wait for room in the journal, before looking whether to stop."""
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 30.0
"""Pause before a read is repeated: doubles from the first to the most."""
_STOP_S = 5.0
"""Time that a source has, at a stop, to return from its current read."""

log = structlog.get_logger("wallaroo.gateway")


class PythonSources(SourceConnector):
    """Reads all sources that Python code provides, each in a separate thread.

    Args:
        sources: The sources by their indices.
        journal: Takes the messages, and knows where to resume.
    """

    def __init__(self, sources: Mapping[int, CustomSource], journal: Journal) -> None:
        self._sources = sources
        self._journal = journal
        self._readers: dict[int, PythonSourceReader] = {}

    async def start(self) -> None:
        """See `SourceConnector.start`."""
        for index, source in self._sources.items():
            self._readers[index] = PythonSourceReader(index, source, self._journal)

    async def stop(self) -> None:
        """See `SourceConnector.stop`."""
        stopping = (asyncio.to_thread(reader.stop) for reader in self._readers.values())
        await asyncio.gather(*stopping)

    def status(self, index: int) -> SourceState:
        """See `SourceConnector.status`."""
        reader = self._readers[index]
        return SourceState(
            self._sources[index].where, reader.ended, reader.failures, reader.problem
        )


class PythonSourceReader:
    """Reads one source in a separate thread.

    Args:
        index: Index of the source in the application.
        source: The source.
        journal: Takes the messages, and knows where to resume.
    """

    def __init__(self, index: int, source: CustomSource, journal: Journal) -> None:
        self._index = index
        self._source = source
        self._journal = journal
        self._position = journal.reached(source.name)
        """Pickled position of the last message that the journal was given."""
        self._stopping = threading.Event()
        self._handing_in = threading.Lock()
        """Held while a message is handed in, which does not happen after a stop."""
        self._repeats = Repeats()
        self.ended = False
        """Whether the source has come to its end."""
        self.failures = 0
        """Times that reading has failed since the last message."""
        self.problem: str | None = None
        """Why it failed last."""
        self._thread = threading.Thread(target=self._run, name=f"source-{index}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages; the journal has been given all that were taken."""
        with self._handing_in:
            if self._stopping.is_set():
                return
            self._stopping.set()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            log.warning("source does not stop", **self._names(), reason="it waits in read()")

    def _run(self) -> None:
        pause = _RETRY_FIRST_S
        while not self._stopping.is_set():
            position = self._position
            try:
                self._read()
            except FrameError as error:
                self._failed(error)
                log.error(  # noqa: TRY400  (what to know of it is its message)
                    "source ended early", **self._names(), reason=self.problem
                )
                self.ended = True
                return
            except BaseException as error:  # this thread continues, whatever it is
                self._failed(error)
                pause = _RETRY_FIRST_S if position != self._position else pause
                if self._repeats.show(self.problem):
                    log.warning(
                        "source failed", **self._names(), reason=self.problem, next_try_s=pause
                    )
                self._stopping.wait(pause)
                pause = min(pause * 2, _RETRY_MOST_S)
            else:
                if not self._stopping.is_set():
                    self.ended, self.failures, self.problem = True, 0, None
                    log.info("source ended", **self._names())
                return

    def _read(self) -> None:
        """Take messages until they end, or until stopped."""
        messages = self._source.reader.read(_unpickled(self._position))
        with contextlib.ExitStack() as at_end:
            if callable(close := getattr(messages, "close", None)):
                at_end.callback(close)
            for item in messages:
                if item is None:
                    self._stopping.wait(_IDLE_S)
                elif not self._take(*_checked(item)):
                    return
                if self._stopping.is_set():
                    return

    def _take(self, payload: bytes, position: Any) -> bool:
        """Hand a message in, once there is room; returns whether it was, before a stop."""
        framing = self._source.framing
        if len(payload) > framing.max_frame:
            msg = f"a message of {len(payload)} bytes; the limit is {framing.max_frame}"
            raise FrameError(msg)
        reached = Reached(self._source.name, pickle.dumps(position, protocol=5))
        while not self._journal.wait_for_room(self._index, _AHEAD_BYTES, _ROOM_WAIT_S):
            if self._stopping.is_set():
                return False
        with self._handing_in:
            if self._stopping.is_set():
                return False
            self._journal.submit_read(self._index, framing.frame(payload), reached)
            self._position = reached.position
        self.failures, self.problem = 0, None
        return True

    def _failed(self, error: BaseException) -> None:
        place = place_of_failure(error)
        at = f" ({place})" if place else ""
        self.failures += 1
        self.problem = f"{describe_error(error)}{at}"

    def _names(self) -> dict[str, str]:
        return {"source": self._source.name, "reads": self._source.where}


def _unpickled(position: bytes | None) -> Any:
    return None if position is None else pickle.loads(position)


def _checked(item: Any) -> tuple[bytes, Any]:
    """*item* as what `MessageSource.read` yields.

    Raises:
        TypeError: It is something else.
    """
    match item:
        case (bytes() | bytearray() | memoryview() as payload, position):
            return bytes(payload), position
    msg = f"read() yielded {item!r:.100}, expected None or a pair of payload bytes and position"
    raise TypeError(msg)
