"""The journal: every accepted message on disk, in order of arrival, until a checkpoint has it.

A message is accepted once the transaction with its block is committed and synced. One thread
writes: it takes what has come in since the last commit and commits it together, so that a flood
costs few syncs and a single message waits for one. A source that is read leaves its position with
its messages, in the same transaction. Engines read ranges of offsets as often as they like. What a
committed epoch has consumed is deleted by the same thread, a slice at a time: deleting the messages
of a large epoch at once would hold up both the next block and senders.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import structlog

from wallaroo.gateway.database import connect, lacks_reserve, lacks_room, transaction
from wallaroo.gateway.journal.block_rows import SCHEMA as CHUNK_SCHEMA
from wallaroo.gateway.journal.block_rows import bytes_before
from wallaroo.gateway.journal.clock import SteadyClock, Uptime, uptime
from wallaroo.gateway.journal.commit import SCHEMA as COMMIT_SCHEMA
from wallaroo.gateway.journal.commit import commit_of
from wallaroo.gateway.journal.openings import departure, note_opening
from wallaroo.gateway.journal.positions import SCHEMA as POSITION_SCHEMA
from wallaroo.gateway.journal.positions import Positions
from wallaroo.gateway.journal.reader import BlockReader
from wallaroo.gateway.journal.request_keys import SCHEMA as REQUEST_SCHEMA
from wallaroo.gateway.journal.request_keys import KeyedRequest, RequestKeys
from wallaroo.gateway.journal.stream_positions import StreamName, StreamPosition, StreamPositions
from wallaroo.gateway.journal.write_buffer import JournalLimits, Reached, Waiting, WriteBuffer
from wallaroo.gateway.marks import MarkWriter
from wallaroo.gateway.row_sums import keep_sums
from wallaroo.system.failpoints import fault
from wallaroo.wire.records import TICK_SOURCE, Block

SCHEMA = CHUNK_SCHEMA + POSITION_SCHEMA + COMMIT_SCHEMA + REQUEST_SCHEMA
_ROOM_PAUSE_S = 0.5
"""Pause before a commit for which the disk had no room is repeated."""
_ADVICE = "it resumes when outputs are delivered, or when the disk has more space"
NEVER = (1 << 63) - 1
"""A time that no clock shows, in nanoseconds since the Unix epoch."""
_TRIM_BYTES = 16 * 1024**2
"""Bytes of messages that are deleted at a time, which takes some milliseconds; in bytes, so that
blocks of a few messages are deleted as fast as they come in."""

log = structlog.get_logger("wallaroo.gateway")


class Journal:
    """The journal in one SQLite database.

    Args:
        path: File of the database; created if missing.
        limits: Its bounds.
        on_room: Called, in the writer's thread or the one that trims, when there is room again
            after `full` was true.
        on_failure: Called in the writer's thread if it cannot write; nothing is accepted then.
        clock: Returns the wall clock, in nanoseconds since the Unix epoch; the journal goes by the
            steady clock that it makes of it.
        on_accepted: Called in the writer's thread, before others are notified, with the positions
            of the streams that have more on disk; must be quick.
        uptime: Returns how long the machine has been running.
    """

    def __init__(
        self,
        path: Path,
        limits: JournalLimits,
        on_room: Callable[[], None] = lambda: None,
        on_failure: Callable[[Exception], None] = lambda _error: None,
        clock: Callable[[], int] = time.time_ns,
        on_accepted: Callable[[Mapping[StreamName, int]], None] = lambda _positions: None,
        uptime: Callable[[], Uptime] = uptime,
    ) -> None:
        self._wall = clock
        self.on_room = on_room
        self.on_accepted = on_accepted
        self._on_failure = on_failure
        self._directory = path.parent
        self._database = connect(path)
        self._database.executescript(SCHEMA)
        self._positions = Positions(self._database)
        self.blocks = BlockReader(path)
        """What is on disk, to be read."""
        self._database_lock = threading.Lock()
        self._changed = threading.Condition()
        self.stream_positions = StreamPositions(
            self._database, self._database_lock, self._changed, limits.streams
        )
        """How much of each stream of the acknowledged protocol is on disk."""
        self.request_keys = RequestKeys(self._database, self._database_lock)
        """Keys of requests that are on disk."""
        stored = bytes_before(self._database, NEVER)
        self.clock = SteadyClock(clock, uptime, self._positions.clock())
        """The clock by which messages arrive and ticks come."""
        self._write_buffer = WriteBuffer(limits, stored, self.clock.now)
        self._closing = False
        self._waits_end = False
        (end,) = self._database.execute("SELECT max(first + count) FROM chunk").fetchone()
        self._trimmed = self._consumed = self._positions.get("trimmed")
        self._processed = self._positions.get("processed")
        self._write_buffer.ahead.found(self.blocks.sizes(self._processed))
        self._wake_ns = self._positions.get("wake") or NEVER
        self._wakes_for_outputs = True
        self._end = max(end or 0, self._trimmed)
        self._openings = note_opening(self._database, self._trimmed, self._end)
        self._mark = MarkWriter(path)
        self._mark.note(self.opening, self._end, durably=True)
        keep_sums(self._database)
        self._accepted = dict(self._database.execute("SELECT source, count FROM accepted"))
        self._writer = threading.Thread(target=self._write, name="journal", daemon=True)
        self._writer.start()

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
        are committed with the messages; *reached* may come without any.
        """
        with self._changed:
            self._changed.notify_all()
            return self._write_buffer.add(source, count, data, stream_position, reached, request)

    def submit_read(self, source: int, message: bytes, reached: Reached) -> bool:
        """Hand in one message, and the position after it; returns whether there is more room."""
        with self._changed:
            self._changed.notify_all()
            return self._write_buffer.add_read(source, message, reached)

    def reached(self, source: str) -> bytes | None:
        """Where to resume reading the source called *source*; None for its beginning."""
        with self._database_lock:
            row = self._database.execute(
                "SELECT position FROM reached WHERE source = ?", (source,)
            ).fetchone()
        return row[0] if row else None

    def wait_for_room(self, source: int, most: int, timeout_s: float) -> bool:
        """Wait until it is not full, and less than *most* bytes of *source* are not processed.

        Processed messages do not count: they stay on disk until an epoch ends.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: self._write_buffer.has_room(source, most), timeout_s
            )

    @property
    def opening(self) -> str:
        """Random name of this opening: offsets belong to the journal that returned them."""
        return self._openings[-1].name

    def check(self, offset: int, opening: str | None) -> None:
        """Refuse an offset of another journal.

        Args:
            offset: Offset up to which messages are processed.
            opening: The opening that it came with; None if that is not known.

        Raises:
            LookupError: This journal does not have the messages before *offset*.
        """
        departs = departure(self._openings, self._end, offset, opening)
        if departs is not None:
            msg = (
                f"the messages before {offset} are processed, and this journal has those before "
                f"{departs} only: was it replaced?"
            )
            raise LookupError(msg)

    @property
    def end(self) -> int:
        """Offset after the last accepted message."""
        return self._end

    @property
    def consumed(self) -> int:
        """Offset up to which messages are consumed."""
        return self._consumed

    @property
    def processed(self) -> int:
        """Offset up to which chunks are known to have been published."""
        return self._processed

    @property
    def backlog(self) -> int:
        """Messages that are accepted and not yet processed."""
        return self._end - self._processed

    @property
    def wakes(self) -> bool:
        """Whether a tick is scheduled."""
        return self._wake_ns < NEVER

    @property
    def waits_for_time(self) -> bool:
        """Whether a tick is scheduled, and it or a later one may have outputs."""
        with self._changed:
            return self.wakes and self._wakes_for_outputs

    @property
    def disk_bytes(self) -> int:
        """Bytes of messages that are on disk."""
        return self._write_buffer.stored_bytes

    @property
    def accepted(self) -> dict[int, int]:
        """Messages accepted from each source since the journal was new."""
        with self._changed:
            return dict(self._accepted)

    def waiting(self) -> tuple[dict[int, int], float]:
        """Unprocessed messages of each source, and seconds that the first has waited."""
        return self.blocks.waiting(self._processed, self.clock.now())

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was handed in is accepted; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._write_buffer.waiting_bytes, timeout_s)

    def wake(self, at_ns: int | None, *, has_outputs: bool = True, durably: bool = True) -> None:
        """Add a tick when the clock shows *at_ns*; None for never.

        Args:
            at_ns: When, in nanoseconds since the Unix epoch.
            has_outputs: Whether it or a later one may have outputs.
            durably: Whether a journal that is opened again is to know of it.
        """
        if durably:
            with self._database_lock, transaction(self._database):
                self._positions.put("wake", NEVER if at_ns is None else at_ns)
        with self._changed:
            self._wake_ns = NEVER if at_ns is None else at_ns
            self._wakes_for_outputs = has_outputs
            self._changed.notify_all()

    def wait_beyond(self, offset: int, timeout_s: float) -> None:
        """Wait until a message or tick at or after *offset* is accepted."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not (self._end > offset or self._waits_end):
                self._tick_if_time()
                left = min(deadline - time.monotonic(), (self._wake_ns - self.clock.now()) / 1e9)
                self._changed.wait(max(left, 0.0))
                if time.monotonic() >= deadline:
                    break
            self._tick_if_time()

    def end_waits(self) -> None:
        """Let `wait_beyond` and `wait_accepted` return, now and from now on."""
        with self._changed:
            self._waits_end = True
            self._changed.notify_all()

    def wait_accepted(self, source: int, count: int, timeout_s: float) -> bool:
        """Wait until *count* messages of *source* are accepted; returns whether they are."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._accepted.get(source, 0) >= count or self._waits_end, timeout_s
            )
            return self._accepted.get(source, 0) >= count

    def read(self, start: int, end: int) -> Iterator[list[Block]]:
        """The blocks of [*start*, *end*), in lists of a few MiB.

        Raises:
            LookupError: Some of it has been deleted, or is missing.
        """
        gone = self._consumed
        if start < gone:
            msg = (
                f"messages from {start} on were requested, "
                f"but those before {gone} have been deleted"
            )
            raise LookupError(msg)
        yield from self.blocks.read(start, end)

    def unprocessed(self) -> Iterator[Block]:
        """The blocks that are not processed, in order of arrival."""
        return self.blocks.beyond(self._processed)

    def note_processed(self, end: int) -> None:
        """Note that the outputs of all messages before offset *end* are published."""
        with self._database_lock, transaction(self._database):
            self._positions.put("processed", max(end, self._processed))
        self.note_published(end)

    def note_published(self, end: int) -> None:
        """Note the same where the outbox knows it for good: it is not written here."""
        with self._changed:
            self._processed = max(self._processed, end)
            if self._write_buffer.ahead.processed(end):
                self._changed.notify_all()

    def consume(self, end: int) -> None:
        """Delete the messages before offset *end*, soon."""
        with self._changed:
            self._consumed = max(self._consumed, end)
            self._write_buffer.ahead.processed(end)
            self._changed.notify_all()

    def close(self) -> None:
        """Accept everything that was handed in, then close the database."""
        with self._changed:
            self._closing = self._waits_end = True
            self._changed.notify_all()
        self._writer.join()
        with contextlib.suppress(sqlite3.Error):  # its disk is full: the last commit has stored it
            self._positions.put_clock(self.clock.read(), at_once=True)
        self._database.close()
        self._mark.close()

    def _write(self) -> None:
        try:
            while (taken := self._take()) is not None:
                if taken:
                    self._commit_when_there_is_room(taken)
                self._trim_some()
                self._notify_room()
        except sqlite3.Error as error:
            self._on_failure(error)

    def _take(self) -> list[Waiting] | None:
        """What waits for the disk, perhaps nothing; None after everything has been written."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._write_buffer or self._closing or self._trimmed < self._consumed
            )
            taken = self._write_buffer.take()
            return None if self._closing and not taken else taken

    def _trim_some(self) -> None:
        """Delete the first consumed messages, or later if the disk has no room for that."""
        start, end = self._trimmed, self._consumed
        if end <= start:
            return
        try:
            reached = self.blocks.reach(start, _TRIM_BYTES, end - start)
            if reached > start:  # else nothing is there
                end = min(end, reached)
            with self._database_lock, transaction(self._database):
                size = bytes_before(self._database, end)
                self._database.execute("DELETE FROM chunk WHERE first < ?", (end,))
                self._positions.put("trimmed", end)
        except sqlite3.Error as error:
            if self._closing or not lacks_room(error):
                raise
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._write_buffer, _ROOM_PAUSE_S)
            return
        with self._changed:
            self._trimmed = end
            self._write_buffer.note_deleted(size)
            self._changed.notify_all()

    def _commit_when_there_is_room(self, taken: Sequence[Waiting]) -> None:
        """Commit *taken*; while the disk is full, it waits here, and so do senders."""
        warned = False
        while True:
            reason = "" if self._closing else self._lacks_reserve(taken)
            if not reason:
                try:
                    self._commit(taken)
                    break
                except sqlite3.Error as error:
                    if self._closing or not lacks_room(error):
                        raise
                    reason = f"the disk has no room: {error}"
            if not warned:
                warned = True
                log.warning("journal waits", reason=reason, advice=_ADVICE)
            self._trim_some()
            with self._changed:
                self._changed.wait_for(lambda: self._closing, _ROOM_PAUSE_S)
        if warned:
            log.info("journal resumed")

    def _lacks_reserve(self, taken: Sequence[Waiting]) -> str:
        with self._database_lock:
            size = sum(len(waiting.data) for waiting in taken)
            return lacks_reserve(self._database, self._directory, size)

    def _commit(self, taken: Sequence[Waiting]) -> None:
        commit = commit_of(taken, self._end, self._accepted)
        streams = commit.stream_positions
        used_ns = dict.fromkeys(streams, self._wall())
        with self._database_lock, transaction(self._database):
            commit.store(self._database)
            self.stream_positions.save(streams, used_ns)
            self._positions.put_clock(self.clock.read(), at_once=self._closing)
            fault("journal-before-commit")
        fault("journal-after-commit")
        self._mark.note(self.opening, commit.end)
        with self._changed:
            self.stream_positions.saved(streams, used_ns)
            self._end = commit.end
            self._write_buffer.note_stored(commit.size)
            self._write_buffer.ahead.stored(
                (row.source, row.first + row.messages, len(row.data)) for row in commit.rows
            )
            self._accepted = commit.accepted
            if streams:
                self.on_accepted(streams)
            self._changed.notify_all()

    def _tick_if_time(self) -> None:
        if self._wake_ns <= self.clock.now():
            self._wake_ns = NEVER
            self.submit(TICK_SOURCE, 1, b"")

    def _notify_room(self) -> None:
        with self._changed:
            room = self._write_buffer.is_free_again()
        if room:
            self.on_room()
