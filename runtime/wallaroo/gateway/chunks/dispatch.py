"""One run of a real-time query, as the gateway sees it.

The gateway hands chunks to the process of the first stage, one after the other, and takes the
reports of all processes. A chunk that all have reported is published, in order, with all others
that wait for it, in one transaction. Few chunks are under way at a time: so they grow with the
load. What partitions send each other for a later level of a chunk goes through the gateway. An
epoch ends when all chunks are published; Spark then takes over what they changed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from wallaroo.gateway.chunks.epoch import EpochTimer
from wallaroo.gateway.chunks.flights import Flights
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.position_check import check_agreement
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.chunks.spacing import Spacing
from wallaroo.gateway.chunks.tail import JournalTail
from wallaroo.gateway.chunks.ticks import Ticks
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder, Stopped
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.outbox.chunks import FinishedChunk, QueryProgress
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.outbox.room import with_room
from wallaroo.system.failpoints import fault
from wallaroo.wire.chunk_messages import (
    BEGIN,
    CHANGES,
    DAMAGED,
    DONE,
    DRIVER,
    END,
    FAILED,
    FINISH,
    HOLD,
    READER,
    RECORD,
    RELEASE,
    REPORT,
    CheckpointPosition,
    Hello,
    NextLevel,
    Task,
    json_in,
    pack_json,
    pack_next,
    pack_task,
    report_in,
)
from wallaroo.wire.frame_socket import FrameSocket
from wallaroo.wire.records import Tally

_WAIT_S = 0.2
"""Longest wait until the next check whether the epoch is to end."""
_MOST_UNPUBLISHED = 64
"""Chunks that wait for the disk at most."""

_Result = TypeVar("_Result")


class ChunkRun:
    """One run of a real-time query.

    Args:
        hello: What its first process said.
        journal: Where messages are.
        tail: Opens it for reading.
        outbox: Where outputs go.
        evidence: Says what becomes of messages that are set aside.
        resumes: What runs before have left; changed.
        pace: How much is under way at a time.
        reports: Takes what is published.
        on_failure: Called when the outbox cannot be written.
    """

    def __init__(
        self,
        hello: Hello,
        journal: Journal,
        tail: Callable[[], JournalTail],
        outbox: Outbox,
        evidence: EvidenceFinder,
        resumes: Resumes,
        pace: Pace,
        reports: PublicationReports,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.order = (hello.claim, hello.attempt)
        """A later run has a higher one."""
        self.end: tuple[str, bool] = ("its query has ended", False)
        """What a driver that may not `join` is told: why, and whether later runs would fail too."""
        self._partitions = hello.partitions
        self._journal = journal
        self._tail = tail
        self._outbox = outbox
        self._evidence = evidence
        self._resumes = resumes
        self._pace = pace
        self._spacing = Spacing(pace)
        self._epoch = EpochTimer(pace)
        self._reports = reports
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._processes: dict[int, FrameSocket] = {}
        self._flights = Flights(0)
        self._levels: deque[NextLevel] = deque()
        """Later levels of chunks that are to run now."""
        self._ticks = Ticks(journal)
        self._query: str | None = None
        """Name of the query; None until its first epoch begins."""
        self._begun = CheckpointPosition()
        """Where the epoch begins; everything before is in Spark's state store."""
        self._open = False
        """Whether an epoch is under way that takes chunks."""
        self._next = 0
        """Offset of the first message of the next chunk."""
        self._asked = 0
        """Number of the driver's last request that the epoch ends; 0 where it is answered."""
        self._answers = 0
        """The same of the request that the next epoch's beginning answers."""
        self._held = False  # no more chunks are handed out
        self._stands_since = 0.0
        """When the end of an epoch began."""
        self._failed = self._closed = False
        self._threads: list[threading.Thread] = []

    def join(self, role: int, frames: FrameSocket) -> bool:
        """Let the process *role* take part; whether it may."""
        with self._changed:
            if self._failed or self._closed or role in self._processes:
                return False
            self._processes[role] = frames
            self._changed.notify_all()
        return True

    def receive(self, role: int, frame: bytes) -> None:
        """Take what the process *role* sends.

        Raises:
            LookupError: It makes no sense.
        """
        kind = frame[:1]
        if kind == REPORT:
            report = report_in(frame)
            with self._changed:
                self._levels += self._flights.report(role, report)
                if role >= 0:
                    self._spacing.saved(report.saving_s)
                self._changed.notify_all()
        elif kind == BEGIN and role == READER:
            query, timed, *place = json_in(frame)
            try:
                self._begin(query, CheckpointPosition(*place), timed=timed)
            except LookupError as error:
                self.fail(str(error), final=True)
        elif kind == CHANGES and role >= 0:
            query, after = json_in(frame)
            with self._outbox.chunks() as table:
                records = table.changes(query, role, after)
            for record in records:
                self._processes[role].send(RECORD, record)
            self._processes[role].send(DONE)
        elif kind == DAMAGED:
            self.fail(json_in(frame), final=True)
        elif kind in {HOLD, RELEASE} and role == DRIVER:
            with self._changed:
                self._held = kind == HOLD
                self._changed.notify_all()
        elif kind == FINISH and role == DRIVER:
            with self._changed:
                self._asked = json_in(frame)
                self._changed.notify_all()
        else:
            msg = f"process {role} sends a frame {kind!r}"
            raise LookupError(msg)

    def close(self) -> None:
        """End it: all its processes are cut off."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if self._flights.unpublished:
                self._resumes.suspect_until = max(self._resumes.suspect_until, self._next)
            self._changed.notify_all()
            for frames in self._processes.values():
                frames.close()

    def wait(self) -> None:
        """Wait until its threads, once it is closed, use journal and outbox no more."""
        for thread in self._threads:
            thread.join()

    def fail(self, reason: str, *, final: bool) -> None:
        """End it, and let the driver know why, even one that joins later."""
        with self._changed:
            if self._failed or self._closed:
                return
            self._failed, self.end = True, (reason, final)
            driver = self._processes.get(DRIVER)
        if driver is not None:
            driver.send(pack_json(FAILED, {"reason": reason, "final": final}))
        self.close()

    def _begin(self, query: str, place: CheckpointPosition, *, timed: bool) -> None:
        """An epoch begins: Spark has all that chunks up to *place* have changed.

        Args:
            query: Name of the query.
            place: How far it is.
            timed: Whether the application has windows.
        """
        first = self._query is None
        self._journal.check(place.offset, place.opening)
        fault("chunks-before-forget")
        known = self._with_room(lambda: self._forget(query, place, first=first))
        fault("chunks-after-forget")
        progress = known.get(query, QueryProgress(place.chunk, place.offset))
        self._with_room(lambda: self._journal.note_processed(progress.end))
        self._journal.consume(place.offset)
        with self._changed:
            if first:
                self._query = query
                self._flights = Flights(progress.chunk)
                self._next = progress.end
                if timed:
                    self._ticks.ask_at_once()
                works = self._hand_out, self._hand_on, self._publish
                for work in works if not self._closed else ():
                    name = f"chunks-{work.__name__.strip('_')}"
                    thread = threading.Thread(
                        target=self._guarded, args=(work,), name=name, daemon=True
                    )
                    self._threads.append(thread)
                    thread.start()
            self._begun, self._open = place, True
            # a run before may have handed out any number of them
            resumes = self._next > place.offset
            began = self._epoch.begin(self._pace.journal_bytes if resumes else 0)
            if not first:
                self._reports.epoch_ended(began - self._stands_since)
            answered, self._answers = self._answers, 0
            self._changed.notify_all()
        self._answer(answered)

    def _forget(
        self, query: str, place: CheckpointPosition, *, first: bool
    ) -> dict[str, QueryProgress]:
        """Forget what Spark has; returns how far each query is."""
        with self._outbox.chunks() as table:
            known = table.progress()
            if first:
                check_agreement(query, place, known, self._journal.end)
            table.forget(query, place.chunk)
        return known

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError:  # a process is gone
            self.close()
        except LookupError as error:
            self.fail(str(error), final=True)
        except Exception as error:
            self.close()
            self._on_failure(error)

    # --- chunks go out -----------------------------------------------------------------------

    def _hand_out(self) -> None:
        tail = self._tail()
        last_message = time.monotonic()
        try:
            while self._wait_for_room():
                if self._is_epoch_over(time.monotonic() - last_message):
                    self._end_epoch()
                    continue
                if self._held:
                    self._report()
                    with self._changed:
                        self._changed.wait_for(
                            lambda: self._closed or self._asked or not self._held, _WAIT_S
                        )
                    continue
                self._journal.wait_beyond(self._next, _WAIT_S)
                self._report()
                self._spacing.wait()
                self._wait_for_batch()
                if not self._outbox.wait_for_room(_WAIT_S):
                    continue
                chunks = tail.read(self._next, self._pace.chunk_bytes)
                if not chunks or self._held:
                    continue
                last_message = time.monotonic()
                size = sum(len(chunk.data) for chunk in chunks)
                self._spacing.handed_out(size)
                end = chunks[-1].first + chunks[-1].messages
                with self._changed:
                    start, self._next = self._next, end
                    suspect = start < self._resumes.suspect_until
                    number = self._flights.begin(end, size, isolates=suspect)
                    self._ticks.handed_out(number, chunks)
                self._epoch.handed_out(size)
                self._reports.handed_out(start, end)
                self._processes[READER].send(pack_task(Task(number, start, end, suspect, chunks)))
        finally:
            tail.close()

    def _hand_on(self) -> None:
        """Send the reader later levels, in a separate thread because the reader may be busy."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._levels)
                if self._closed:
                    return
                following = self._levels.popleft()
            self._processes[READER].send(pack_next(following))

    def _wait_for_batch(self) -> None:
        """Wait for as many messages as batched steps ask for, once there is one."""
        deadline = time.monotonic() + self._pace.batch_wait_s
        last = self._next + self._pace.batch_messages - 1
        while self._next < self._journal.end <= last and not self._closed and not self._asked:
            until = min(deadline, time.monotonic() + _WAIT_S)
            self._journal.wait_beyond(last, until - time.monotonic())
            if self._held or time.monotonic() < until or until == deadline:
                return  # earlier, if the journal ends

    def _wait_for_room(self) -> bool:
        """Wait until a chunk may be handed out; returns whether the run continues."""
        roles = {READER, DRIVER, *range(self._partitions)}
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or (
                        self._open
                        and self._processes.keys() >= roles
                        and self._flights.under_way < self._pace.chunks
                        and self._flights.under_way_bytes < self._pace.under_way_bytes
                        and self._flights.unpublished < _MOST_UNPUBLISHED
                    )
                )
            )
            return not self._closed

    def _is_epoch_over(self, quiet_s: float) -> bool:
        return self._asked > 0 or self._epoch.is_over(
            quiet_s=quiet_s,
            has_chunks=self._flights.last != self._begun.chunk,
            journal_bytes=self._journal.disk_bytes,
        )

    def _end_epoch(self) -> None:
        """Let all that is under way be published, then let Spark have it."""
        self._stands_since = time.monotonic()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._flights.unpublished)
            if self._closed:
                return
            answered, self._asked = self._asked, 0
            place = CheckpointPosition(self._next, self._flights.last, self._journal.opening)
            ends = place.chunk != self._begun.chunk or self._epoch.is_first
            if ends:
                self._open, self._answers = False, answered
        if ends:
            fault("chunks-before-epoch-end")
            self._processes[READER].send(END, place.to_json().encode())
            fault("chunks-after-epoch-end")
        else:  # Spark has all
            self._answer(answered)

    def _answer(self, number: int) -> None:
        """Let the driver know that what it asked for is done; 0 if it did not ask."""
        if number:
            self._report(at_once=True)  # it may be about to stop
            self._processes[DRIVER].send(pack_json(FINISH, number))

    # --- what they led to is published -------------------------------------------------------

    def _publish(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._flights.has_finished())
                if self._closed:
                    return
                chunks = self._flights.take()
            finished = time.monotonic()
            self._spacing.ran(finished - chunks[-1].began)
            fault("chunks-before-publish")
            try:
                tally = self._published(chunks)
            except Stopped as error:
                self.fail(str(error), final=True)
                return
            self._journal.note_published(chunks[-1].end)
            assert self._query is not None
            self._reports.published(self._query, chunks, tally, finished)
            with self._changed:
                self._flights.published(len(chunks))
                self._epoch.published(sum(chunk.changes_bytes for chunk in chunks))
                self._ticks.published(chunks[-1].number, tally)
                self._changed.notify_all()
            self._report()

    def _published(self, chunks: Sequence[FinishedChunk]) -> Tally:
        """Publish *chunks*, once the disk has room."""
        query = self._query
        assert query is not None
        return self._with_room(lambda: self._outbox.publish(query, chunks, self._evidence))

    def _report(self, *, at_once: bool = False) -> None:
        """Report to the driver what was published, if it is time or *at_once*."""
        driver = self._processes.get(DRIVER)
        if driver is None or not self._reports.is_due(at_once=at_once):
            return
        if not (at_once or driver.is_ready()):
            return  # it stands still, and the stream is not to wait for it
        if (frame := self._reports.take(at_once=at_once)) is not None:
            driver.send(frame)

    def _with_room(self, transact: Callable[[], _Result]) -> _Result:
        if self._closed:
            msg = "the query was cut off"
            raise ConnectionError(msg)
        return with_room(transact, lambda: self._closed)
