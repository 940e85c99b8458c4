"""The newest outputs of a sink as events, ready to be sent to any number of viewers."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import NamedTuple

_EVENT_BYTES = 128
"""What an event counts besides its data, so that there is a bound on events, too."""
_NUMBER = re.compile(r"[0-9]{1,19}")
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Piece(NamedTuple):
    """Events for one viewer."""

    data: bytes
    """The events; empty if there are none yet."""
    after: int
    """Number of the output that comes next."""


class History:
    r"""Events within a bound of bytes; for any thread.

    Args:
        most_bytes: The bound.
        name: Name of the events; None if they have none.
        series: What comes before the number in the identifier of an event: it tells numbers of one
            state directory from those of another.

    Example:
        >>> history = History(1000, "price", "a1")
        >>> history.add(7, [b"one"])
        >>> history.since(7, 100)
        Piece(data=b'id: a1-7\nevent: price\ndata: one\n\n', after=8)
        >>> history.since(6, 100) is None
        True
    """

    def __init__(self, most_bytes: int, name: str | None, series: str) -> None:
        self._most_bytes = most_bytes
        self._event = b"" if name is None else b"event: %b\n" % name.encode()
        self._series = series
        self._lock = threading.Lock()
        self._events: dict[int, bytes] = {}
        self._bytes = 0
        self._first = self._next = 1
        self._known = 0
        """Number of the last output that viewers may have had before this was filled."""

    @property
    def first(self) -> int:
        """Number of the oldest output that is here."""
        with self._lock:
            return self._first

    @property
    def next(self) -> int:
        """Number of the output that comes next."""
        with self._lock:
            return self._next

    def begin(self, number: int, known: int) -> None:
        """Let *number* be that of the output that comes next, if nothing was added yet.

        Args:
            number: The number.
            known: Number of the last output that viewers may have had: those from *number* on may
                come once more.
        """
        with self._lock:
            self._known = known
            if not self._events:
                self._first = self._next = number

    def add(self, number: int, outputs: Sequence[bytes]) -> None:
        """Add *outputs*, the first of which has *number*, except those that are here already."""
        events = [self._encoded(number + place, made) for place, made in enumerate(outputs)]
        with self._lock:
            if number > self._next:  # what was between is not to be had
                self._events.clear()
                self._bytes, self._first, self._next = 0, number, number
            for event in events[self._next - number :]:
                self._events[self._next] = event
                self._next += 1
                self._bytes += len(event) + _EVENT_BYTES
            while self._bytes > self._most_bytes and self._first < self._next - 1:
                self._bytes -= len(self._events.pop(self._first)) + _EVENT_BYTES
                self._first += 1

    def since(self, number: int, most_bytes: int) -> Piece | None:
        """Events from *number* on, one or as many as *most_bytes* hold; None if they are gone."""
        with self._lock:
            if number < self._first:
                return None
            found: list[bytes] = []
            size = 0
            while number < self._next and (size < most_bytes or not found):
                event = self._events[number]
                if found and size + len(event) > most_bytes:
                    break
                found.append(event)
                size += len(event)
                number += 1
        return Piece(b"".join(found), number)

    def identifier(self, number: int) -> str:
        """The identifier of the event with *number*."""
        return f"{self._series}-{number}"

    def number_of(self, identifier: str) -> int | None:
        """The number in *identifier*; None if it is not one of this series."""
        series, dash, number = identifier.rpartition("-")
        if not dash or series != self._series or not _NUMBER.fullmatch(number):
            return None
        return int(number) if int(number) < max(self.next, self._known + 1) else None

    def _encoded(self, number: int, output: bytes) -> bytes:
        lines = b"".join(b"data: %b\n" % line for line in _LINE_END.split(output))
        return b"id: %b\n%b%b\n" % (self.identifier(number).encode(), self._event, lines)
