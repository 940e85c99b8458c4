"""Messages handed in to the journal that are not on disk yet, and the room for more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.gateway.entries import Messages
from wallaroo.gateway.journal.lag import Ahead
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import StreamPosition, StreamPositions
from wallaroo.wire.records import Held

_GATHER_BYTES = 256 * 1024
"""Bytes over which messages that come one by one begin a new block."""
_GATHER_NS = 1_000_000
"""Time after which messages of a stream begin a new block: those of a block have one time of
arrival, that of the first."""


@dataclass(frozen=True)
class JournalLimits:
    """Bounds of the journal; over either, sources stop reading their sockets."""

    disk_bytes: int = 4 * 1024**3
    """Bytes of messages that wait on disk at most: what a stalled engine may cost."""
    memory_bytes: int = 32 * 1024**2
    """Bytes of messages that wait for the disk at most: some commits' worth."""
    keep_bytes: int = 0
    """Bytes of the log that are kept when nothing in them is needed any more, to explain state by
    the messages that made it: with those messages, outputs and changes. None by default, as they
    are further copies of what may be personal data."""
    keep_s: float = 0.0
    """Seconds after its last record when such a part of the log goes, even if there is room; 0 for
    no limit."""
    archive: Path | None = None
    """Directory to which what is not kept any more of the log is moved; None to remove it."""
    streams: int = 10_000
    """Streams of the acknowledged protocol that are remembered at most: some MiB of memory."""


class Reached(NamedTuple):
    """How far a source is read."""

    source: str
    """Name of the source."""
    position: bytes
    """Where to resume."""


class Waiting:
    """A block that is not committed yet, small enough to have thousands of them."""

    __slots__ = (
        "arrived_ns",
        "count",
        "data",
        "held",
        "reached",
        "requests",
        "source",
        "stream_position",
    )

    def __init__(
        self,
        source: int,
        arrived_ns: int,
        count: int,
        data: bytes | bytearray,
        stream_position: StreamPosition | None = None,
        reached: Reached | None = None,
        held: Held = (),
    ) -> None:
        self.source, self.arrived_ns, self.count, self.data = source, arrived_ns, count, data
        self.stream_position = stream_position
        self.reached = reached
        self.held = held
        self.requests: list[KeyedRequest] = []

    def continues(self, source: int, stream_position: StreamPosition, now_ns: int) -> bool:
        """Whether messages of a stream that arrive at *now_ns* may be added to it."""
        return (
            self.stream_position is not None
            and self.stream_position[0] == stream_position[0]
            and self.source == source
            and self.reached is None
            and now_ns - self.arrived_ns <= _GATHER_NS
            and len(self.data) <= _GATHER_BYTES
        )

    def entry(self, first: int, streams: StreamPositions) -> Messages:
        """What the log says of it, with the offset of its *first* message."""
        more: dict[str, Any] = {}
        if self.reached is not None:
            name, position = self.reached
            more["reached"] = [name, position.decode("latin-1")]
        if self.held:
            more["held"] = self.held
        if self.stream_position is not None:
            more["stream"] = streams.entry(*self.stream_position)
        if self.requests:
            more["requests"] = [request.to_json() for request in self.requests]
        return Messages(self.source, self.count, first, self.arrived_ns, len(self.data), more)


class WriteBuffer:
    """Blocks in order of arrival; the journal's lock guards it.

    Args:
        limits: How much may wait.
        ahead: How much of each source is not processed.
        clock: Returns the wall clock, in nanoseconds since the Unix epoch.
    """

    def __init__(self, limits: JournalLimits, ahead: Ahead, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._clock = clock
        self.held: Callable[[int, int], Held] = lambda _source, _now_ns: ()
        """Says for how long a source was held until now."""
        self._last_ns = 0
        """Arrival of the last message: the time of arrival does not run backwards."""
        self._blocks: list[Waiting] = []
        self._ahead = ahead
        self._was_full = False
        self.waiting_bytes = 0
        """Bytes of messages that are not on disk."""
        self.stored_bytes = 0
        """Bytes of messages that are."""

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(
        self,
        source: int,
        count: int,
        data: bytes,
        stream_position: StreamPosition | None = None,
        reached: Reached | None = None,
        request: KeyedRequest | None = None,
    ) -> bool:
        """Add a block of *count* messages; returns whether there is room for more.

        Messages that continue the stream of the last block within a millisecond are added to it.
        """
        now_ns = self._arrival()
        last = self._blocks[-1] if self._blocks else None
        if (
            last is not None
            and stream_position is not None
            and reached is None
            and last.continues(source, stream_position, now_ns)
        ):
            last.count += count
            last.data = bytearray(last.data) if isinstance(last.data, bytes) else last.data
            last.data += data
            last.stream_position = stream_position
        else:
            held = self.held(source, now_ns)
            last = Waiting(source, now_ns, count, data, stream_position, reached, held)
            self._blocks.append(last)
        if request is not None:
            last.requests.append(request)
        return self._grew(source, len(data))

    def add_read(self, source: int, message: bytes, reached: Reached) -> bool:
        """Add a message to those that came one by one; returns whether there is room for more."""
        last = self._blocks[-1] if self._blocks else None
        if (
            last is None
            or last.reached is None
            or last.source != source
            or len(last.data) > _GATHER_BYTES
        ):
            now_ns = self._arrival()
            held = self.held(source, now_ns)
            last = Waiting(source, now_ns, 0, bytearray(), held=held)
            self._blocks.append(last)
        last.count += 1
        last.data += message
        last.reached = reached
        return self._grew(source, len(message))

    def take(self) -> list[Waiting]:
        """All blocks, to be committed."""
        taken, self._blocks = self._blocks, []
        return taken

    def note_stored(self, size: int) -> None:
        """Note that *size* bytes of what was taken are on disk."""
        self.waiting_bytes -= size
        self.stored_bytes += size

    def note_deleted(self, size: int) -> None:
        """Note that *size* bytes have been deleted."""
        self.stored_bytes -= size

    def has_room(self, source: int, most: int) -> bool:
        """Whether it is not full, and less than *most* bytes of *source* are not processed."""
        return not self.is_full() and self._ahead.of(source) < most

    def is_free_again(self) -> bool:
        """Whether there is room again, after there was none at the last call."""
        if not self._was_full or self.is_full():
            return False
        self._was_full = False
        return True

    def _arrival(self) -> int:
        self._last_ns = max(self._last_ns, self._clock())
        return self._last_ns

    def _grew(self, source: int, size: int) -> bool:
        self.waiting_bytes += size
        self._ahead.handed_in(source, size)
        full = self.is_full()
        self._was_full = self._was_full or full
        return not full

    def is_full(self) -> bool:
        """Whether messages have to wait for room."""
        return (
            self.waiting_bytes >= self._limits.memory_bytes
            or self.stored_bytes + self.waiting_bytes >= self._limits.disk_bytes
        )
