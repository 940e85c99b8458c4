"""Sources that Python code reads: messages into the journal, each with its position.

The code belongs to the application: what it raises is logged with its place, and reading resumes
where it was after a growing pause. A source reads ahead of the engine only to a limit, however much
room the journal has: messages that can be read again need not wait on disk.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import time
from collections.abc import Iterable, Iterator
from typing import Any

from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.connectors.threads import IDLE_WAIT_S, SourceThread, SourceThreads, described
from wallaroo.errors import FrameError
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.model.order import BEGINNING, Timeline, timed
from wallaroo.wire.refusals import Refusal, beginning, guarded, refusal

_IDLE_S = 0.05
"""Pause after a source has reported that it has no messages now."""
_ASK_S = 0.02
"""Seconds for which the answer holds that others have no earlier messages."""


class PythonSourceReader(SourceThread[CustomSource, bytes]):
    """Reads one source in a separate thread; its position is that of the last message, pickled."""

    WAITS = "a call of its read(), decoder or time= has not returned"

    def __init__(self, context: ConnectorContext, index: int, source: CustomSource) -> None:
        super().__init__(context, index, source)
        self._reached = self._journal.reached(source.name)
        self._times = Timeline()
        self._limit, self._asked = BEGINNING, 0.0
        """Time up to which messages may be handed in, and when that was asked."""
        self._looked = time.monotonic()
        """When the reader was last asked for a message."""

    def _read(self) -> None:
        """Take messages until they end, or until stopped."""
        if not self._tables_are_read():
            return
        try:
            source, position = self._source, _unpickled(self._reached)
            if self._turn is None:
                messages = source.read(position)
            else:
                messages = source.read_in_order(position, self._times_of)
            with contextlib.ExitStack() as at_end:
                if callable(close := getattr(messages, "close", None)):
                    at_end.callback(close)
                for item, at in self._timed(self._items(messages)):
                    if item is None:
                        self._tables.note_read(self._index)
                        self._rest()
                        self._stopping.wait(_IDLE_S)
                    elif not self._take(*item, at):
                        return
                    if self._stopping.is_set():
                        return
        except FrameError as error:
            self._end_early(described(error))

    def _items(self, messages: Iterable[Any]) -> Iterator[tuple[bytes, Any] | None]:
        self._looked = time.monotonic()
        turn = self._turn if self._turn is not None and self._turn.is_alone else None
        for item in messages:
            if turn is not None and item is not None:  # code of the application may wait in there
                waited_s = time.monotonic() - self._looked if self._source.runs_code else 0.0
                turn.came(waited_s)
            yield None if item is None else _checked(item)
            self._looked = time.monotonic()

    def _timed(
        self, messages: Iterator[tuple[bytes, Any] | None]
    ) -> Iterator[tuple[tuple[bytes, Any] | None, int | None]]:
        """Yield *messages*, each with its time if it has to wait for its turn."""
        if self._turn is None or self._turn.is_alone or self._times_of is None:
            return ((item, None) for item in messages)
        return timed(messages, self._times_of)

    def _take(self, payload: bytes, position: Any, at: int | None) -> bool:
        """Hand a message in, once there is room; returns whether it was, before a stop."""
        if not self._wait_for_turn(at):
            return False
        framing = self._source.framing
        size = len(payload)
        if size > framing.max_frame and not isinstance(payload, Refusal):
            payload = refusal(
                f"{self._source.where}, position {position!r:.100}: a message of {size} bytes; the "
                f"limit is {framing.max_frame}: raise --max-frame; it begins with "
                f"{beginning(payload)}"
            )
        reached = Reached(self._source.name, pickle.dumps(position, protocol=5))
        while not self._has_room():
            if self._stopping.is_set():
                return False
        submit = functools.partial(
            self._journal.submit_read, self._index, framing.frame(payload), reached
        )
        if not self._hand_in(submit, reached.position):
            return False
        self._well()
        return True

    def _wait_for_turn(self, at: int | None) -> bool:
        """Wait until it is the turn of the time *at*; returns whether it is, before a stop."""
        if self._turn is None or self._turn.is_alone or self._times_of is None:
            return True
        at = self._times.reached(at)
        if time.monotonic() - self._asked >= _ASK_S:
            self._limit = at - 1
        while at > self._limit:
            if self._stopping.is_set():
                return False
            self._limit = self._turn.limit(at, IDLE_WAIT_S)
            self._asked = time.monotonic()
        return True

    def _rest(self) -> None:
        if self._turn is not None:
            self._asked = 0.0
            self._turn.rests(self._looked)


open_sources = functools.partial(SourceThreads, PythonSourceReader)


def _unpickled(position: bytes | None) -> Any:
    return None if position is None else pickle.loads(position)


def _checked(item: Any) -> tuple[bytes, Any]:
    """*item* as what `MessageSource.read` yields.

    Raises:
        TypeError: It is something else.
    """
    match item:
        case (bytes() | bytearray() | memoryview() as payload, position):
            return guarded(payload), position
    msg = f"read() yielded {item!r:.100}, expected None or a pair of payload bytes and position"
    raise TypeError(msg)
