"""The gateway's store: journal and outbox over one log, so that they cannot disagree.

It recovers them from the log, takes the turns in which the log is written, and lets go of segments
of which nothing is needed any more.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.contents import Contents, pack_tables
from wallaroo.gateway.damage import LETTERS, LOG, Damage, check_contents
from wallaroo.gateway.dead_letters.store import DeadLetterLimits, DeadLetterStore
from wallaroo.gateway.entries import NOTED, pack_noted
from wallaroo.gateway.journal.clock import Uptime, uptime
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits, Reached
from wallaroo.gateway.log.kept import MOST_WAITING, Keep, KeptSegments
from wallaroo.gateway.numbering import Numbering
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.writer import LogWriter
from wallaroo.wire.records import Block

FORMAT = 4
"""Version of what the records of the log say."""
_EARLIER = "journal.db"
"""Where versions before format 4 had accepted messages."""
_RELEASE_EVERY_S = 0.1
"""Time between two looks whether segments are needed."""
_EXPIRE_EVERY_S = 600.0
"""Time between two looks whether what is kept is too old; the clock may be corrected meanwhile."""
_RELEASE_SHARE = 50
"""Looks take at most one part of so many of the time."""
_CARRIED_BYTES = 16 * 1024**2
"""Bytes of outputs in a segment that are moved out of it, if nothing else of it is needed."""

log = structlog.get_logger("wallaroo.gateway")


class StoreLimits(NamedTuple):
    """Bounds of what is stored."""

    journal: JournalLimits = JournalLimits()
    outbox_bytes: int = 1024**3
    """Bytes of undelivered outputs over which the engine waits."""
    letters: DeadLetterLimits = DeadLetterLimits()


class Store:
    """Journal, outbox and dead letters of one gateway.

    Args:
        directory: The gateway's directory.
        application: Name of the application.
        limits: Bounds of what is stored.
        schedule: Lets `turn` be called soon, by the one thread that does so; for any thread. None
            for a thread of the store's own.
        on_failure: Called if the log cannot be written; nothing is accepted or delivered then.
        sources: Names of the application's sources; None for all that the log has.
        sinks: Names of its sinks, likewise.
        skip_damaged: Whether to set damaged messages and outputs aside, and to resume without them.
        clock: Returns the wall clock, in nanoseconds since the Unix epoch.
        uptime: Returns how long the machine has been running.

    Raises:
        RuntimeFailure: The log is another application's, or of another version.
        DamagedLog: It is not as it was written.
        OSError: It cannot be read, or the disk has no room.
    """

    def __init__(
        self,
        directory: Path,
        application: str = "",
        limits: StoreLimits = StoreLimits(),  # noqa: B008 - it cannot be changed
        schedule: Callable[[], None] | None = None,
        on_failure: Callable[[Exception], None] = lambda _error: None,
        sources: Sequence[str] | None = ("",),
        sinks: Sequence[str] | None = (),
        *,
        skip_damaged: bool = False,
        clock: Callable[[], int] = time.time_ns,
        uptime: Callable[[], Uptime] = uptime,
    ) -> None:
        self._directory, self._application = directory, application
        self._on_failure = on_failure
        self._archives = limits.journal.archive is not None
        self._lost = 0
        """Segments that went without having been archived."""
        self._is_behind = False
        """Whether so many segments wait for the archive that it has been told."""
        self._turns = None if schedule is not None else _Turns(self._take_turn)
        wake = schedule if self._turns is None else self._turns.ask
        assert wake is not None
        self.writer = LogWriter(
            directory / LOG,
            wake,
            lambda: pack_tables(self._tables()),
            lambda: (self.journal.end, self.journal.opening),
            Keep(
                limits.journal.keep_bytes,
                limits.journal.keep_s,
                self._archives,
                self._now_ns,
            ),
        )
        self._letters = DeadLetterStore(directory / LETTERS, limits.letters)
        self._numbering = Numbering(sources, sinks)
        self.journal = Journal(self.writer, limits.journal, self._numbering, clock, uptime)
        self.outbox = Outbox(self.writer, limits.outbox_bytes, self._letters)
        self.on_turned: Callable[[], None] = lambda: None
        """Called at the end of a turn."""
        self.on_gather: Callable[[], None] = lambda: None
        """Called in a turn to publish what can be published."""
        self.writer.gather = self._gather
        self._release_at = 0.0
        """When to look again whether segments are needed."""
        self._expire_at = math.inf
        """When to look again whether what is kept of the log is too old."""
        self._is_releasing = False
        """Whether segments go once what was appended is on disk."""
        self._closed = False
        try:
            self._recover(sources or [""], skip_damaged=skip_damaged)
        except BaseException:
            self.writer.log.close()
            self._letters.close()
            raise
        self.outbox.clock = self.journal.clock.now
        if self._turns is not None:
            self._turns.start()

    def turn(self) -> float | None:
        """Write what has come in; how long until the next turn, None until one is asked for.

        Raises:
            OSError: The log cannot be written.
        """
        self.journal.alarm.ring_if_time()
        again_s = self.writer.turn()
        self.on_turned()
        self.outbox.letters.store()
        now = time.monotonic()
        if now >= self._release_at:
            self._release()
        left = [self.journal.alarm.until_turn(), again_s]
        if self.writer.log.oldest_end is not None:
            left.append(max(0.0, self._release_at - now))
        elif self._expire_at < math.inf:
            left.append(max(0.0, self._expire_at - now))
        return min((wait for wait in left if wait is not None), default=None)

    def close(self) -> None:
        """Write what was handed in, then close everything."""
        if self._closed:
            return
        self._closed = True
        if self._turns is not None:
            self._turns.stop()
        self.journal.close()
        self.outbox.close()
        self.writer.close()
        self._letters.close()

    def _take_turn(self) -> float | None:
        try:
            return self.turn()
        except Exception as error:  # else who waits for a turn would wait for good
            self._on_failure(error)
            return None

    def _gather(self, has_room: bool) -> None:
        if has_room:
            self.journal.gather()
        self.on_gather()

    @property
    def archiving(self) -> KeptSegments | None:
        """The segments that wait for the archive; None if there is none."""
        return self.writer.log.kept if self._archives else None

    def resume(self, values: Mapping[str, Any], kept: Sequence[Block]) -> None:
        """Give other numbers to messages or outputs that are there, before any come in.

        Args:
            values: Which ones, for `replay_noted` of journal and outbox.
            kept: Messages that come next.
        """
        with self.writer.changed:
            self.writer.append(NOTED, pack_noted(**values))
            for part in (self.journal, self.outbox):
                part.index_noted(values)
                part.replay_noted(values)
            self.journal.accept_again(kept)
            self.journal.open_anew()
            self.writer.append_snapshot()  # it would tell if the first of these records were lost
            self.writer.flush()

    def move(self, source: int, reached: Reached) -> None:
        """Let *source* resume after *reached*, wherever it was, before any messages come in.

        Raises:
            OSError: The log cannot be written.
        """
        with self.writer.changed:
            self.journal.submit(source, 0, b"", reached=reached)
            self.journal.gather()
            self.writer.flush()

    def _now_ns(self) -> int:
        return self.journal.clock.now()

    def _tables(self) -> dict[str, Any]:
        return {
            "application": self._application,
            "format": FORMAT,
            "names": self._numbering.names,
            "journal": self.journal.tables(),
            "outbox": self.outbox.tables(),
        }

    # --- recovery --------------------------------------------------------------------------------

    def _recover(self, sources: Sequence[str], *, skip_damaged: bool) -> None:
        if (earlier := self._directory / _EARLIER).exists():  # its messages would be ignored
            msg = (
                f"{earlier} was written by an earlier version of wallaroo, which this one does "
                "not read; give another --state-dir"
            )
            raise RuntimeFailure(msg)
        damage = Damage(self._directory, self._letters, sources, skips=skip_damaged)
        found = Contents(self.journal, self.outbox, self._numbering)
        skip = damage.skip if skip_damaged else None
        for record in self.writer.log.recover(skip=skip, durable=damage.durable):
            found.add(record)
        if found.tables is not None:
            self._check_owner(found.tables)
        found.finish()
        check_contents(self._directory / LOG, found, self.outbox)
        self.outbox.begin(found.letters)
        self.outbox.letters.store()
        with self.writer.changed:
            end = damage.check_end(self.writer.log, self.journal.end, self.journal.openings)
            self.journal.begin(self.outbox.processed, end)
            if self._numbering.changes:
                self.writer.append_snapshot()  # in case the record with the names is lost
            self._check_names()
        self.writer.flush()

    def _check_owner(self, tables: dict[str, Any]) -> None:
        directory = self._directory / LOG
        if tables["format"] != FORMAT:
            msg = (
                f"{directory} has format {tables['format']}, and this version of wallaroo reads "
                f"format {FORMAT}; give another --state-dir"
            )
            raise RuntimeFailure(msg)
        owner = tables["application"]
        if self._application and owner != self._application:
            msg = (
                f"{directory} belongs to the application {owner!r}, and this is "
                f"{self._application!r}; give another --state-dir"
            )
            raise RuntimeFailure(msg)
        self._application = owner

    def _check_names(self) -> None:
        """Refuse an application without the source or sink that something in the log is for."""
        messages = Counter[int]()
        for block in self.journal.unprocessed() if self._numbering.gone("sources") else ():
            messages[block.source] += block.messages
        outputs = {n: self.outbox.queues.undelivered(n) for n in self._numbering.gone("sinks")}
        self._numbering.check_gone(self._directory / LOG, messages, outputs)

    # --- segments --------------------------------------------------------------------------------

    def _release(self) -> None:
        """Let go of the oldest segment; move undelivered outputs out of it if it has little else.

        Of one at a time: a file system takes milliseconds to remove it, and the loop stands still.
        """
        with self.writer.changed:
            now, segments, queues = time.monotonic(), self.writer.log, self.outbox.queues
            self._release_at = now + _RELEASE_EVERY_S
            left_s = segments.kept.expire()
            self._tell_archive(segments.kept)
            self._expire_at = math.inf
            if left_s is not None:
                self._expire_at = max(self._release_at, now + min(left_s, _EXPIRE_EVERY_S))
            end, needed = segments.oldest_end, (self.journal.needed_from, self.outbox.needed_from)
            if end is None or any(at is not None and at < end for at in needed):
                return
            outputs = queues.needed_from
            took = time.monotonic() - now  # a long queue takes long to look at
            self._release_at = now + max(_RELEASE_EVERY_S, _RELEASE_SHARE * took)
            if outputs is not None and outputs < end:
                small = queues.bytes_before(end) <= _CARRIED_BYTES
                if small and not self._is_releasing and not self.writer.is_stuck:
                    self._release_later(end, queues.carry(end, self.writer.append))
            elif segments.durable == segments.next - 1 or self.writer.is_stuck:
                segments.release(end)
            elif not self._is_releasing:
                self._release_later(end)

    def _tell_archive(self, kept: KeptSegments) -> None:
        """Log that the archive falls behind, or has caught up, and what has not been archived."""
        if kept.waits(MOST_WAITING // 2 if self._is_behind else MOST_WAITING) != self._is_behind:
            self._is_behind = not self._is_behind
            if self._is_behind:
                log.warning(
                    "archive waits",
                    reason="it does not take files as fast as the log lets them go",
                    effect=f"{kept.waiting} files of the log wait for it; beyond "
                    f"{kept.most_waiting}, the oldest are removed",
                )
            else:
                log.info("archive resumed")
        if kept.lost != self._lost:
            log.warning(
                "not archived",
                files=kept.lost - self._lost,
                reason="the archive has not taken them in time, or the disk of the log is full",
            )
            self._lost = kept.lost

    def _release_later(self, end: int, durable: Callable[[], None] = lambda: None) -> None:
        """Let go of a segment, once all is on disk because of which it is not needed."""
        self._is_releasing = True

        def release() -> None:
            durable()
            self._is_releasing = False
            self.writer.log.release(end)

        self.writer.when_durable(release)
        self.writer.sync_soon()
        self.writer.wake()


class _Turns:
    """A thread that takes turns when it is asked to, or when the last one said so.

    Args:
        take: Takes a turn; returns how long until the next.
    """

    def __init__(self, take: Callable[[], float | None]) -> None:
        self._take = take
        self._asked = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="log-turns", daemon=True)

    def ask(self) -> None:
        """Ask for a turn."""
        self._asked.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more turns."""
        self._stopping = True
        self._asked.set()
        self._thread.join()

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while not self._stopping:
            self._asked.wait(wait_s)
            self._asked.clear()
            wait_s = self._take()
