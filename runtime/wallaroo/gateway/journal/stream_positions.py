"""Positions of the acknowledged protocol's streams on disk, beside the messages.

The opener of each stream is stored with it. A stream that a client certificate opened belongs to
the certificate's subject, and nobody is remembered with more than half of the streams.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from threading import Condition
from typing import Any, NamedTuple

from wallaroo.errors import FrameError

REPLAYS = ""
"""Name of the stream that replays of dead letters are; no sender can give a stream such a name."""
_IDLE_NS = 30 * 24 * 3600 * 10**9
"""A stream not used for so long, 30 days, is forgotten when another needs its place."""
_CROWDED_IDLE_NS = 3600 * 10**9
"""The same, 1 hour, for a stream of a sender that has too many, or of the one with the most."""


class StreamName(NamedTuple):
    """Which stream of the acknowledged protocol."""

    source: int
    """Index of the source."""
    stream: str
    """Its own name."""


class Opener(NamedTuple):
    """Who opens a stream."""

    subject: str | None
    """Subject of its client certificate; None without one."""
    address: str
    """Its address."""

    @property
    def counted_as(self) -> str:
        """What its streams are counted under."""
        return self.subject or self.address


StreamPosition = tuple[StreamName, int]
"""A stream, and the number of its last message in a block."""


class StreamPositions:
    """The number of the last message on disk, by stream; part of a journal.

    Args:
        changed: Held while this object is used, and notified when more is on disk.
        most: Streams that are remembered at most.
        note_gone: Adds to the log that a stream is forgotten.
        flush: Returns when what was added to the log is on disk.
    """

    def __init__(
        self,
        changed: Condition,
        most: int,
        note_gone: Callable[[StreamName], None],
        flush: Callable[[], None],
    ) -> None:
        self._changed, self._most = changed, most
        self._note_gone, self._flush = note_gone, flush
        self._last: dict[StreamName, int] = {}
        self._used_ns: dict[StreamName, int] = {}
        """When streams were last written to disk."""
        self._openers: dict[StreamName, Opener] = {}
        self._counts = Counter[str]()
        """Streams by who opened them."""
        self._gone: set[StreamName] = set()
        """Streams that are forgotten, which is not on disk yet."""

    def open(self, name: StreamName, opener: Opener, in_use: Collection[StreamName] = ()) -> int:
        """The number of the last message of a stream that is on disk, 0 for a new stream.

        Args:
            name: The stream.
            opener: Who opens it.
            in_use: Streams that are not to be forgotten to make room for it.

        Raises:
            FrameError: The stream belongs to another subject, or there are too many streams and
                all have been used recently.
        """
        with self._changed:
            if name not in self._last:
                self._make_room(name, opener, in_use)
                if name in self._gone:  # its sender must not find the old number after a crash
                    self._flush()
                self._note(name, opener)
                return self._last.setdefault(name, 0)
            known = self._openers.get(name)
            owner = None if known is None else known.subject
            if opener.subject is not None and owner is not None and owner != opener.subject:
                msg = (
                    f"the stream {name.stream!r} belongs to the certificate of {owner!r}, and this "
                    f"one is of {opener.subject!r}"
                )
                raise FrameError(msg)
            if known is None or (owner is None and opener.subject is not None):
                self._note(name, opener)
            return self._last[name]

    def last(self, name: StreamName) -> int:
        """The number of the last message of a stream that is on disk, 0 if there is none."""
        with self._changed:
            return self._last.get(name, 0)

    def last_of(self, stream: str) -> int:
        """The same of the stream with this own name that has the highest one, of any source."""
        with self._changed:
            return max((n for name, n in self._last.items() if name.stream == stream), default=0)

    def wait(self, name: StreamName, number: int, timeout_s: float) -> bool:
        """Wait until message *number* of a stream is on disk; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._last.get(name, 0) >= number, timeout_s)

    def drop(self, name: StreamName) -> None:
        """Forget a stream that never had a message."""
        with self._changed:
            if self._last.get(name) == 0:
                self.forget(name)

    def entry(self, name: StreamName, last: int) -> list[Any]:
        """What is stored beside messages of a stream, of which this is the number of the last."""
        opener = self._openers.get(name, Opener(None, ""))
        return [*name, last, time.time_ns(), *opener]

    def store(self, entry: Sequence[Any]) -> None:
        """Note that what `entry` returned is on disk; the caller holds `changed`, and notifies."""
        source, stream, last, used_ns, subject, address = entry
        name = StreamName(source, stream)
        self._last[name], self._used_ns[name] = last, used_ns
        known = self._openers.get(name)
        if known is None or (known.subject is None and subject is not None):
            self._note(name, Opener(subject, address))

    def gone(self, name: StreamName) -> None:
        """Note that it is on disk that a stream is forgotten; the caller holds `changed`."""
        self._gone.discard(name)

    def to_json(self) -> list[list[Any]]:
        """All that is on disk, as plain JSON values."""
        return [
            [*name, last, self._used_ns[name], *self._openers.get(name, Opener(None, ""))]
            for name, last in self._last.items()
            if name in self._used_ns
        ]

    def _note(self, name: StreamName, opener: Opener) -> None:
        if (known := self._openers.get(name)) is not None:
            self._counts[known.counted_as] -= 1
        self._openers[name] = opener
        self._counts[opener.counted_as] += 1

    def forget(self, name: StreamName) -> None:
        """Forget a stream; the caller holds `changed`."""
        self._last.pop(name, None)
        self._used_ns.pop(name, None)
        if (known := self._openers.pop(name, None)) is not None:
            self._counts[known.counted_as] -= 1
            if not self._counts[known.counted_as]:
                del self._counts[known.counted_as]

    def _make_room(self, name: StreamName, opener: Opener, in_use: Collection[StreamName]) -> None:
        """Make room for a new stream: forget idle ones, if there are too many.

        Raises:
            FrameError: All have been used recently.
        """
        if len(self._last) >= self._most:
            self._give_up(self._idle(_IDLE_NS))
            crowd = max(self._counts, key=self._counts.__getitem__, default=None)
            if len(self._last) >= self._most and crowd is not None:
                self._forget_one_of(crowd, in_use)
            if len(self._last) >= self._most:
                msg = (
                    f"stream {name.stream!r} exceeds the limit: the gateway remembers "
                    f"{self._most}, and all have been used recently"
                )
                raise FrameError(msg)
        mine, most = opener.counted_as, max(1, self._most // 2)
        if self._counts[mine] >= most:
            self._forget_one_of(mine, in_use)
            if self._counts[mine] >= most:
                msg = (
                    f"stream {name.stream!r} exceeds the limit: the gateway remembers {most} of "
                    f"{mine}, and all have been used recently"
                )
                raise FrameError(msg)

    def _forget_one_of(self, counted_as: str, in_use: Collection[StreamName]) -> None:
        """Forget the stream of an opener that has been idle for the longest time, if one has."""
        for name in self._idle(_CROWDED_IDLE_NS):
            known = self._openers.get(name)
            if known is not None and known.counted_as == counted_as and name not in in_use:
                self._give_up([name])
                return

    def _idle(self, for_ns: int) -> list[StreamName]:
        """Streams that have been idle for so long, the most idle first."""
        before = time.time_ns() - for_ns
        idle = [name for name, used_ns in self._used_ns.items() if used_ns < before]
        return sorted(idle, key=self._used_ns.__getitem__)

    def _give_up(self, names: Collection[StreamName]) -> None:
        """Forget *names*, without waiting for the disk."""
        for name in names:
            self.forget(name)
            self._gone.add(name)
            self._note_gone(name)
