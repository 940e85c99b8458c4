"""The journal: every accepted message on disk, in order of arrival, until a checkpoint has it.

A message is accepted once the log has it on disk. What has come in since the last turn of the log's
writer is written together, so that a flood costs few writes and a single message waits for none. A
source that is read leaves its position with its messages, in the same record.
"""

from __future__ import annotations

import functools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from wallaroo.gateway.entries import (
    MESSAGES,
    NOTED,
    Messages,
    block_of,
    pack_messages,
    pack_noted,
)
from wallaroo.gateway.journal.alarm import Alarm
from wallaroo.gateway.journal.blocks import Blocks
from wallaroo.gateway.journal.clock import SteadyClock, Uptime, uptime
from wallaroo.gateway.journal.lag import Ahead
from wallaroo.gateway.journal.openings import Opening, departure, opened_anew
from wallaroo.gateway.journal.request_keys import KeyedRequest, RequestKeys
from wallaroo.gateway.journal.stream_positions import StreamName, StreamPosition, StreamPositions
from wallaroo.gateway.journal.write_buffer import JournalLimits, Reached, WriteBuffer
from wallaroo.gateway.numbering import Numbering
from wallaroo.gateway.silence import Silence
from wallaroo.gateway.writer import LogWriter
from wallaroo.wire.records import TICK_SOURCE, Block

_AGAIN = {"again": True}
"""Said of messages that were accepted before, under other numbers."""
_DAMAGED = {"damaged": True}
"""Said of numbers of messages that are missing, as they were damaged on disk."""


class Journal:
    """The messages in a log.

    Args:
        writer: Writes the log.
        limits: Its bounds.
        numbering: What numbers of sources mean.
        clock: Returns the wall clock, in nanoseconds since the Unix epoch; the journal goes by the
            steady clock that it makes of it.
        uptime: Returns how long the machine has been running.
    """

    def __init__(
        self,
        writer: LogWriter,
        limits: JournalLimits,
        numbering: Numbering,
        clock: Callable[[], int] = time.time_ns,
        uptime: Callable[[], Uptime] = uptime,
    ) -> None:
        self._writer, self._changed = writer, writer.changed
        self._numbering = numbering
        self.on_room: Callable[[], None] = lambda: None
        """Called when there is room again after `submit` told that there was none."""
        self.on_accepted: Callable[[Mapping[StreamName, int]], None] = lambda _positions: None
        """Called with the positions of the streams that have more on disk; must be quick."""
        self.stream_positions = StreamPositions(
            self._changed, limits.streams, self._note_stream_gone, writer.flush
        )
        """How much of each stream of the acknowledged protocol is on disk."""
        self._request_keys = RequestKeys()
        self._blocks = Blocks(writer.log, numbering)
        self._ahead = Ahead()
        self.clock = SteadyClock(clock, uptime)
        """The clock by which messages arrive and ticks come."""
        self.openings: list[Opening] = []
        """All openings that a checkpoint may name."""
        self.end = 0
        """Offset after the last accepted message."""
        self.written = 0
        """Offset after the last message that is written, if perhaps not on disk yet."""
        self.consumed = 0
        """Offset up to which messages are consumed."""
        self.processed = 0
        """Offset up to which chunks are known to have been published."""
        self._accepted = Counter[int]()
        self._done = Counter[int]()
        """Those of `_accepted` that are processed."""
        self._handed_out: deque[tuple[int, int, Mapping[int, int]]] = deque()
        """Chunks that may be unprocessed: offset behind each, when its first message arrived, and
        its messages by source."""
        self._reached: dict[str, bytes] = {}
        self._pending: deque[Messages] = deque()
        """What is written, perhaps, and not surely on disk."""
        self._buffer = WriteBuffer(limits, self._ahead, self.clock.now)
        self.silence = Silence(self.clock.now, self._buffer.is_full)
        """For how long sources were held."""
        self._buffer.held = self.silence.held
        self.alarm = Alarm(self.clock, self.silence, self._buffer, writer)
        """When the next tick is to come."""
        self._waits_end = False

    # --- recovery --------------------------------------------------------------------------------

    def restore(self, tables: Mapping[str, Any]) -> None:
        """Begin with *tables*, as `tables` returned them."""
        self.openings = [Opening(*one) for one in tables["openings"]]
        self.end = self.written = tables["end"]
        self.consumed = tables["consumed"]
        self._accepted = Counter({int(source): n for source, n in tables["accepted"].items()})
        self._reached = {name: at.encode("latin-1") for name, at in tables["reached"].items()}
        for entry in tables["streams"]:
            self.stream_positions.store(entry)
        for request in tables["requests"]:
            self._request_keys.add(KeyedRequest.from_json(request))
        self.alarm.restore(tables)

    def index(self, entry: Messages, address: int) -> None:
        """Note where the messages of a record are."""
        self._blocks.add(entry, address)
        if entry.messages:
            self._ahead.stored(entry)

    def index_skipped(self, address: int) -> None:
        """Note that there is a record in the place of damaged ones, which may have had messages."""
        self._blocks.add_skipped(address)

    def replay(self, entry: Messages) -> None:
        """Accept the messages of a record that was found on disk."""
        self._accept(entry)
        self._note_in_memory(entry)
        self.written = self.end

    def index_noted(self, values: Mapping[str, Any]) -> None:
        """Note what else moves messages."""
        if "moved" in values:
            self._blocks.forget_all()
            self._ahead.forget_all()

    def replay_noted(self, values: Mapping[str, Any]) -> None:
        """Take over what else a record that was found says."""
        if "clock" in values:
            self.alarm.replay(values)
        if "openings" in values:
            self.openings = [Opening(*one) for one in values["openings"]]
        if "consumed" in values:
            self.consumed = values["consumed"]
        if "forget" in values:
            self.stream_positions.forget(StreamName(*values["forget"]))
        if "moved" in values:
            end, opening = values["moved"]
            self.end = self.written = self.consumed = self.processed = end
            self.openings = [Opening(0, opening)] if opening else []

    def begin(self, processed: int, end: int = 0) -> None:
        """Begin to accept messages.

        Args:
            processed: Offset before which they are published.
            end: Offset after the last one that was ever accepted, if the log lacks it.
        """
        self.alarm.begin()
        if max(end, processed) > self.end:  # the last ones are missing, or were damaged
            self._skip(max(end, processed))
        self.end_reading(processed)
        self._blocks.consume(self.consumed)
        self._count()
        self.open_anew()

    def _count(self) -> None:
        """Count what is on disk, and what of it is not processed."""
        self._buffer.stored_bytes = self._blocks.stored_bytes
        self._done = self._accepted - self._ahead.begin(self.processed, self._blocks.read)

    def end_reading(self, processed: int) -> None:
        """Note up to which offset messages are processed, in a journal that is only read."""
        self.end = self.written = max(self.end, processed)
        self.processed = max(processed, self.consumed)

    def open_anew(self) -> None:
        """Note that the journal is opened to be written."""
        self.openings = opened_anew(self.openings, self.consumed, self.end)
        noted = pack_noted(openings=self.openings, names=self._numbering.names)
        self._numbering.opened(self._writer.append(NOTED, noted))

    def tables(self) -> dict[str, Any]:
        """What is to be known of the messages before the next record, as plain JSON values."""
        accepted, streams = self._accepted.copy(), list[list[Any]]()
        for entry in self._pending:
            if entry.source != TICK_SOURCE:
                accepted[entry.source] += entry.messages
            if "stream" in entry.more:
                streams.append(entry.more["stream"])
        return {
            "openings": self.openings,
            "end": self.written,
            "consumed": self.consumed,
            "accepted": accepted,
            "reached": {name: at.decode("latin-1") for name, at in self._reached.items()},
            "streams": self.stream_positions.to_json() + streams,
            "requests": self._request_keys.to_json(),
            **self.alarm.tables(),
        }

    # --- messages come in ------------------------------------------------------------------------

    def submit(
        self,
        source: int,
        count: int,
        data: bytes,
        stream_position: StreamPosition | None = None,
        reached: Reached | None = None,
        request: KeyedRequest | None = None,
    ) -> bool:
        """Hand in *count* messages of *source*; returns whether there is room for more.

        The order of the calls is the order of arrival. *stream_position*, *reached* and *request*
        are accepted with the messages; *reached* may come without any.
        """
        with self._changed:
            self._writer.wake()
            return self._buffer.add(source, count, data, stream_position, reached, request)

    def submit_read(self, source: int, message: bytes, reached: Reached) -> bool:
        """Hand in one message, and the position after it; returns whether there is more room."""
        with self._changed:
            self._writer.wake()
            return self._buffer.add_read(source, message, reached)

    def gather(self) -> None:
        """Append what was handed in to the log; part of a turn of its writer."""
        taken = self._buffer.take()
        if not taken:
            return
        streams = self.stream_positions
        for waiting in taken:
            entry = waiting.entry(self.written, streams)
            parts = pack_messages(entry, waiting.data)
            if entry.more.keys() - {"reached", "held"}:  # somebody waits for an answer
                address = self._writer.append(MESSAGES, *parts)
            else:
                address = self._writer.append_lazily(MESSAGES, *parts)
            self.written = entry.end
            self._pending.append(entry)
            self._note_in_memory(entry)
            if entry.messages:
                self._blocks.add(entry, address)
                data = bytes(waiting.data)
                self._blocks.keep(block_of(entry, data))
        self.alarm.store()
        self._writer.when_durable(functools.partial(self._note_durable, len(taken)))

    def _note_durable(self, count: int) -> None:
        """The next *count* records are on disk."""
        streams: dict[StreamName, int] = {}
        for _ in range(count):
            entry = self._pending.popleft()
            self._accept(entry)
            self._buffer.note_stored(entry.size)
            if entry.messages:
                self._ahead.stored(entry)
            if "stream" in entry.more:
                source, stream, last, *_ = entry.more["stream"]
                streams[StreamName(source, stream)] = last
        if streams:
            self.on_accepted(streams)
        self._note_room()

    def _accept(self, entry: Messages) -> None:
        if entry.first > self.end:  # damaged ones count for the first source, as does their letter
            self._accepted[0] += entry.first - self.end
        self.end = entry.end
        if "damaged" in entry.more:
            self._accepted[0] += entry.messages
        elif entry.source != TICK_SOURCE and "again" not in entry.more:
            self._accepted[entry.source] += entry.messages
        if "stream" in entry.more:
            self.stream_positions.store(entry.more["stream"])

    def _note_in_memory(self, entry: Messages) -> None:
        """Note what is known of *entry* as soon as it is appended, and not before.

        A snapshot may come before its record, and be all that reaches the disk.
        """
        if "reached" in entry.more:
            name, position = entry.more["reached"]
            self._reached[name] = position.encode("latin-1")
        self.silence.stored(entry.more.get("held", ()), entry.arrived_ns)
        for request in entry.more.get("requests", ()):
            self._request_keys.add(KeyedRequest.from_json(request))

    def _note_stream_gone(self, name: StreamName) -> None:
        self._writer.append_lazily(NOTED, pack_noted(forget=name))
        self._writer.when_durable(lambda: self.stream_positions.gone(name))

    def close(self) -> None:
        """Append what the clock shows, before the log is closed."""
        self.end_waits()
        with self._changed:
            self.gather()
            self.alarm.store(at_once=True)

    # --- messages go out -------------------------------------------------------------------------

    def take(self, start: int, most_bytes: int, *, durable: bool = False) -> Sequence[Block]:
        """The messages from offset *start* on, of about *most_bytes*; none if there are none.

        Args:
            start: The offset.
            most_bytes: Bytes after which no more are added.
            durable: Whether they are to be on disk already.

        Raises:
            LookupError: Some of them are not there, but later ones are.
            DamagedLog: They are not as they were written.
        """
        with self._changed:
            blocks = self._blocks.take(start, self.end if durable else self.written, most_bytes)
            if blocks:
                sources = Counter[int]()
                for block in blocks:
                    sources[block.source] += block.messages
                end = blocks[-1].end
                while self._handed_out and self._handed_out[-1][0] > start:
                    self._handed_out.pop()  # by a query that has ended
                self._handed_out.append((end, blocks[0].arrived_ns, sources))
            return blocks

    def bytes_beyond(self, offset: int) -> int:
        """Bytes of the messages in memory that wait to be handed out, from *offset* on, about."""
        return self._blocks.bytes_beyond(offset, self.written)

    def read(self, start: int, end: int) -> Iterator[Block]:
        """The messages from offset *start* on and before *end*.

        Raises:
            LookupError: Some of them have been deleted, or are missing.
            DamagedLog: They are not as they were written.
        """
        with self._changed:
            if start < self.consumed:
                msg = (
                    f"messages from {start} on were requested, "
                    f"but those before {self.consumed} have been deleted"
                )
                raise LookupError(msg)
            self._writer.flush()
            return iter(list(self._blocks.read(start, end)))

    def unprocessed(self, end: int | None = None) -> Iterator[Block]:
        """The messages that are not processed, in order of arrival.

        Args:
            end: Offset after those that are wanted, which are written; None for all accepted ones.
        """
        return self._blocks.read(self.processed, self.end if end is None else end)

    def note_published(self, end: int) -> None:
        """Note that the outputs of all messages before offset *end* are on disk."""
        with self._changed:
            self.processed = max(self.processed, end)
            while self._handed_out and self._handed_out[0][0] <= end:
                self._done.update(self._handed_out.popleft()[2])
            if self._ahead.processed(end):
                self._changed.notify_all()
            self._note_room()

    def consume(self, end: int) -> None:
        """Delete the messages before offset *end*, soon."""
        with self._changed:
            if end > self.consumed:
                self.consumed = end
                self._writer.append_unsynced(NOTED, pack_noted(consumed=end))
                self._writer.wake()
            before = self._blocks.stored_bytes
            self._blocks.consume(self.consumed)
            self._buffer.note_deleted(before - self._blocks.stored_bytes)
            self._ahead.processed(end)
            self._note_room()
            self._changed.notify_all()

    def _skip(self, end: int) -> None:
        """Let a reading of the clock have the numbers before *end*, which are not given again."""
        count, now_ns = end - self.end, self.clock.now()
        entry = Messages(TICK_SOURCE, count, self.end, now_ns, 0, _DAMAGED)
        self._blocks.add(entry, self._writer.append(MESSAGES, *pack_messages(entry, b"")))
        self._accept(entry)
        self.written = end

    def accept_again(self, kept: Sequence[Block]) -> None:
        """Add messages that were there before, under new numbers."""
        for block in kept:
            entry = Messages(
                block.source,
                block.messages,
                self.end,
                block.arrived_ns,
                len(block.data),
                {**_AGAIN, "held": block.held} if block.held else _AGAIN,
            )
            address = self._writer.append(MESSAGES, *pack_messages(entry, block.data))
            self.index(entry, address)
            self.end = self.written = entry.end
        self._count()

    @property
    def needed_from(self) -> int | None:
        """Address in the log from which on messages are needed; None if none are."""
        return self._blocks.oldest

    # --- what it knows ---------------------------------------------------------------------------

    def reached(self, source: str) -> bytes | None:
        """Where to resume reading the source called *source*; None for its beginning."""
        with self._changed:
            return self._reached.get(source)

    def unread(self, sources: Iterable[str]) -> list[str]:
        """Names with a position at which no source of *sources* resumes, in order."""
        with self._changed:
            return sorted(self._reached.keys() - set(sources))

    def source_number(self, name: str) -> int | None:
        """The number of the source called *name*; None if the application has none."""
        return self._numbering.number("sources", name)

    def request_keys(self, source: int) -> dict[bytes, tuple[bytes, int]]:
        """Digest and number of the messages of each key of *source*, the oldest first."""
        with self._changed:
            return self._request_keys.of(source)

    @property
    def opening(self) -> str:
        """Random name of this opening: offsets belong to the journal that returned them."""
        return self.openings[-1].name

    def check(self, offset: int, opening: str | None) -> None:
        """Refuse an offset of another journal.

        Args:
            offset: Offset up to which messages are processed.
            opening: The opening that it came with; None if that is not known.

        Raises:
            LookupError: This journal does not have the messages before *offset*.
        """
        departs = departure(self.openings, self.end, offset, opening)
        if departs is not None:
            msg = (
                f"the messages before {offset} are processed, and this journal has those before "
                f"{departs} only: was it replaced?"
            )
            raise LookupError(msg)

    @property
    def backlog(self) -> int:
        """Messages that are accepted and not yet processed."""
        return max(0, self.end - self.processed)

    @property
    def disk_bytes(self) -> int:
        """Bytes of messages that are on disk."""
        return self._blocks.stored_bytes

    @property
    def accepted(self) -> dict[int, int]:
        """Messages accepted from each source since the journal was new."""
        with self._changed:
            return dict(self._accepted)

    def waiting(self) -> tuple[dict[int, int], float]:
        """Unprocessed messages of each source, and seconds that the first has waited."""
        with self._changed:
            backlog = dict(self._accepted - self._done)
            if self.end <= self.processed:
                return backlog, 0.0
            now_ns = self.clock.now()
            if self._handed_out:
                first_ns = self._handed_out[0][1]
            else:
                block = next(self._blocks.read(self.processed, self.end), None)
                first_ns = now_ns if block is None else block.arrived_ns
            return backlog, max(0.0, (now_ns - first_ns) / 1e9)

    # --- waiting, for threads --------------------------------------------------------------------

    def wait_for_room(self, source: int, most: int, timeout_s: float) -> bool:
        """Wait until it is not full, and less than *most* bytes of *source* are not processed.

        Processed messages do not count: they stay on disk until an epoch ends.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._buffer.has_room(source, most), timeout_s)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was handed in is accepted; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._buffer.waiting_bytes, timeout_s)

    def wait_accepted(self, source: int, count: int, timeout_s: float) -> bool:
        """Wait until *count* messages of *source* are accepted; returns whether they are."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._accepted[source] >= count or self._waits_end, timeout_s
            )
            return self._accepted[source] >= count

    def end_waits(self) -> None:
        """Let `wait_accepted` return, now and from now on."""
        with self._changed:
            self._waits_end = True
            self._changed.notify_all()

    def _note_room(self) -> None:
        if self._buffer.is_free_again():
            self.on_room()
