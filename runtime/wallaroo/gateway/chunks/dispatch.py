"""One run of a real-time query, as the gateway sees it.

The gateway hands chunks to the process of the first stage, one after the other, and takes the
reports of all processes. Chunks that all have reported are published, in order, in one record of
the log. Few chunks are under way at a time: so they grow with the load. What partitions send each
other for a later level of a chunk goes through the gateway. An epoch ends when all chunks are
published; Spark then takes over what they changed. Until its shuffle runs for the next epoch,
chunks are *direct*: what the first stage makes of them goes through the gateway as well.

All of it runs in the gateway's event loop, which waits for nobody: `step` does what can be done.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Sequence

from wallaroo.gateway.chunks.changes import ChangeSender
from wallaroo.gateway.chunks.epoch import EpochTimer, SaveRequests
from wallaroo.gateway.chunks.flights import Flights
from wallaroo.gateway.chunks.look_ups import LookUps
from wallaroo.gateway.chunks.pace import Pace, Resumes
from wallaroo.gateway.chunks.peers import Peer
from wallaroo.gateway.chunks.position_check import check_agreement
from wallaroo.gateway.chunks.processes import Processes
from wallaroo.gateway.chunks.reports import PublicationReports
from wallaroo.gateway.chunks.spacing import Spacing
from wallaroo.gateway.chunks.ticks import Ticks
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder, Stopped
from wallaroo.gateway.journal.blocks import gathered
from wallaroo.gateway.outbox.chunks import FinishedChunk, QueryProgress
from wallaroo.gateway.store import Store
from wallaroo.system.failpoints import fault
from wallaroo.wire.chunk_messages import (
    BEGIN,
    CHANGES,
    DAMAGED,
    DRIVER,
    FAILED,
    FINISH,
    HOLD,
    NO_ROOM,
    READER,
    READY,
    RELEASE,
    REPORT,
    SAVABLE,
    CheckpointPosition,
    Hello,
    Report,
    Task,
    json_in,
    pack_json,
    report_in,
)
from wallaroo.wire.look_ups import ANSWER, ASK
from wallaroo.wire.records import Tally

_LOOK_S = 0.2
"""Pause between looks whether the epoch is to end, and whether there is something to report."""


class ChunkRun:
    """One run of a real-time query.

    Args:
        hello: What its first process said.
        store: Where messages are, and outputs go.
        evidence: Says what becomes of messages that are set aside.
        resumes: What runs before have left; changed.
        pace: How much is under way at a time.
        reports: Takes what is published.
        on_failure: Called when the store cannot be used.
    """

    def __init__(
        self,
        hello: Hello,
        store: Store,
        evidence: EvidenceFinder,
        resumes: Resumes,
        pace: Pace,
        reports: PublicationReports,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.order = (hello.claim, hello.attempt)
        """A later run has a higher one."""
        self._store, self._journal, self._outbox = store, store.journal, store.outbox
        self._evidence, self._resumes, self._pace = evidence, resumes, pace
        self._spacing, self._epoch = Spacing(pace), EpochTimer(pace)
        self._saving = SaveRequests(lambda: self._processes[DRIVER].send(SAVABLE))
        self._reports, self._on_failure = reports, on_failure
        self._loop = asyncio.get_running_loop()
        self._processes = Processes(hello.partitions)
        self._flights = Flights(0)
        self._ticks = Ticks(self._journal.alarm)
        self._changes = ChangeSender(store, self._give_up)
        self._look_ups = LookUps(self._processes)
        self._query: str | None = None
        """Name of the query; None until its first epoch begins."""
        self._begun = CheckpointPosition()
        """Where the epoch begins; everything before is in Spark's state store."""
        self._open = False
        """Whether an epoch is under way that takes chunks."""
        self._direct = False
        """Whether chunks are direct: all that are under way are, or none."""
        self._next = 0
        """Offset of the first message of the next chunk."""
        self._asked = 0
        """Number of the driver's last request that the epoch ends; 0 where it is answered."""
        self._answers = 0
        """The same of the request that the next epoch's beginning answers."""
        self._held = False  # no more chunks are handed out
        self._look = self._loop.call_later(_LOOK_S, self._look_around)
        self._soon: asyncio.TimerHandle | None = None
        """The next call of `step`, if it is time then for a chunk."""
        self.failure: dict[str, object] | None = None
        """Why it failed, as sent to a driver; None if it has not."""
        self._closed = False

    # --- processes -------------------------------------------------------------------------------

    def join(self, role: int, peer: Peer) -> bool:
        """Let the process *role* take part; whether it may."""
        if self._closed or role in self._processes:
            return False
        self._processes.join(role, peer)
        self.step()
        return True

    def receive(self, role: int, frame: bytes) -> None:
        """Take what the process *role* sends.

        Raises:
            LookupError: It makes no sense.
        """
        kind = frame[:1]
        if self._closed:
            return
        if kind == REPORT:
            self._take_report(role, report_in(frame))
        elif kind == ANSWER and role >= 0:
            self._look_ups.answered(role, frame)
        elif kind == BEGIN and role == READER:
            query, timed, *place = json_in(frame)
            begin = functools.partial(self._begin, query, CheckpointPosition(*place), timed=timed)
            with self._store.writer.changed:  # Spark may keep at once what a run before published
                self._store.writer.once_durable(functools.partial(self._guarded, begin))
        elif kind == READY and role >= 0:
            self._processes.note_reached(role, json_in(frame))
            self.step()
        elif kind == CHANGES and role >= 0:
            self._changes.begin(role, self._processes[role], *json_in(frame))
        elif kind == DAMAGED:
            self.fail(json_in(frame), final=True)
        elif kind == NO_ROOM:
            self.fail(json_in(frame), no_room=True)
        elif kind == ASK and role == DRIVER:
            self._look_ups.ask(frame)
        elif kind in {HOLD, RELEASE, FINISH, SAVABLE} and role == DRIVER:
            self._obey(kind, frame)
        else:
            msg = f"process {role} sends a frame {kind!r}"
            raise LookupError(msg)

    def _take_report(self, role: int, report: Report) -> None:
        for following in self._flights.report(role, report):
            self._processes.run_level(following, direct=self._direct)
        if role >= 0:
            self._spacing.saved(report.saving_s)
        if self._flights.has_finished():
            with self._store.writer.changed:
                self._store.writer.wake()
        else:
            self.step()

    def _obey(self, kind: bytes, frame: bytes) -> None:
        """Do what the driver requests."""
        if kind == FINISH:
            self._asked = json_in(frame)
        elif kind == SAVABLE:
            self._saving.grant()
        else:
            self._held = kind == HOLD
        self.step()

    def close(self) -> None:
        """End it: all its processes are cut off."""
        if self._closed:
            return
        self._closed = True
        self._look.cancel()
        if self._soon is not None:
            self._soon.cancel()
        self._changes.close()
        if self._flights.unpublished:
            self._resumes.suspect_until = max(self._resumes.suspect_until, self._next)
        self._processes.close()

    def fail(self, reason: str, **more: bool) -> None:
        """End it, and let the driver know why and what *more* is true of it, now or later."""
        if not self._closed:
            self.failure = {"reason": reason, **more}
            if (driver := self._processes.driver) is not None:
                driver.send(pack_json(FAILED, self.failure))
        self.close()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except LookupError as error:
            self.fail(str(error), final=True)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """End it, as the store cannot be used."""
        self.close()
        self._on_failure(error)

    # --- epochs ----------------------------------------------------------------------------------

    def _begin(self, query: str, place: CheckpointPosition, *, timed: bool) -> None:
        """An epoch begins: Spark has all that chunks up to *place* have changed.

        Args:
            query: Name of the query.
            place: How far it is.
            timed: Whether the application has windows.
        """
        if self._closed:
            return
        first = self._query is None
        self._journal.check(place.offset, place.opening)
        fault("chunks-before-forget")
        known = self._outbox.progress()
        if first:
            check_agreement(query, place, known, self._journal.written)
        self._outbox.forget(query, place.chunk)
        self._journal.consume(place.offset)
        fault("chunks-after-forget")
        progress = known.get(query, QueryProgress(place.chunk, place.offset))
        if first:
            self._query = query
            self._flights = Flights(progress.chunk)
            self._next = progress.end
            self._look_ups.begin(progress.chunk, progress.end)
            if timed:
                self._ticks.ask_at_once()
        self._begun, self._open = place, True
        # a run before may have handed out any number of them
        resumes = first and self._next > place.offset
        if not first:
            self._reports.epoch_ended(self._epoch.stood_s)
        self._epoch.begin(self._pace.journal_bytes if resumes else 0)
        answered, self._answers = self._answers, 0
        self._answer(answered)
        self.step()

    def _is_epoch_over(self) -> bool:
        epoch = self._epoch
        return self._asked > 0 or (
            epoch.is_over(
                has_chunks=self._flights.last != self._begun.chunk,
                journal_bytes=self._journal.disk_bytes,
            )
            and (epoch.is_first or epoch.is_full or self._saving.is_granted())
        )

    def _end_epoch(self) -> None:
        """Let Spark have it, once all that is under way is published."""
        self._epoch.ends()
        if self._flights.unpublished:
            return
        answered, self._asked = self._asked, 0
        place = CheckpointPosition(self._next, self._flights.last, self._journal.opening)
        if place.chunk != self._begun.chunk or self._epoch.is_first:
            self._open, self._answers = False, answered
            self._direct = not answered  # a driver that asks has Spark keep all, and may stop
            self._epoch.handed_over()
            fault("chunks-before-epoch-end")
            self._processes.end_epoch(place)
            fault("chunks-after-epoch-end")
        else:  # Spark has all
            self._answer(answered)

    def _answer(self, number: int) -> None:
        """Let the driver know that what it asked for is done; 0 if it did not ask."""
        if number:
            self._reports.tell(self._processes.driver, at_once=True)  # it may be about to stop
            self._processes[DRIVER].send(pack_json(FINISH, number))

    # --- chunks go out ---------------------------------------------------------------------------

    def step(self) -> None:
        """Hand out what can be handed out, and end the epoch if it is time."""
        if self._closed or self._query is None or not self._processes.are_there:
            return
        self._guarded(self._step)

    def _step(self) -> None:
        while (self._open or self._direct) and self._flights.has_room(self._pace):
            if self._direct and self._open and self._processes.are_reached(self._begun.chunk):
                if self._flights.under_way:
                    return  # they reach the partitions before what Spark's shuffle carries
                self._direct = False
            if not self._direct:
                if self._is_epoch_over():
                    self._end_epoch()
                    return
                self._epoch.goes_on()
            if (left_s := self._left_s()) is None:
                return
            if left_s > 0:
                if self._soon is None:
                    self._soon = self._loop.call_later(left_s, self._step_now)
                return
            if not self._hand_out():
                return

    def _step_now(self) -> None:
        self._soon = None
        self.step()

    def _look_around(self) -> None:
        """Do regularly what nothing else asks for."""
        self._look = self._loop.call_later(_LOOK_S, self._look_around)
        self._guarded(lambda: self._reports.tell(self._processes.driver))
        self._epoch.warn_if_long(lacks_room=self._store.writer.is_stuck)
        self.step()

    def _left_s(self) -> float | None:
        """Seconds until the next chunk may go out; None if there is none."""
        waits = self._end > self._next
        if not waits or self._held or self._outbox.full or self._store.writer.is_stuck:
            self._spacing.none_wait()
            return None
        return self._spacing.left_s(
            self._journal.bytes_beyond(self._next),
            self._outbox.delivery_times.gap_s,
            fills_batch=self._end - self._next >= self._pace.batch_messages or self._asked > 0,
        )

    @property
    def _end(self) -> int:
        """Offset after the last message that may be handed out."""
        return self._journal.end if self._pace.waits_for_disk else self._journal.written

    def _hand_out(self) -> bool:
        """Hand out the next chunk; returns whether there was one."""
        blocks = self._journal.take(
            self._next, self._pace.chunk_bytes, durable=self._pace.waits_for_disk
        )
        if not blocks:
            return False
        size = sum(len(block.data) for block in blocks)
        self._spacing.handed_out()
        start, self._next = self._next, blocks[-1].end
        suspect = start < self._resumes.suspect_until
        number = self._flights.begin(self._next, size, isolates=suspect, direct=self._direct)
        self._ticks.handed_out(number, blocks)
        self._epoch.handed_out(size)
        self._reports.handed_out(blocks)
        messages = gathered(blocks)
        self._processes.run(Task(number, start, self._next, suspect, self._direct, messages))
        return True

    # --- what they led to is published -----------------------------------------------------------

    def publish(self) -> None:
        """Publish the chunks that all have reported; part of a turn of the log's writer."""
        if self._closed or not self._flights.has_finished():
            return
        chunks, finished = self._flights.take(), time.monotonic()
        fault("chunks-before-publish")
        assert self._query is not None
        published: list[Tally] = []

        def durable() -> None:
            self._note_published(chunks, published[0], finished)

        try:
            published.append(self._outbox.publish(self._query, chunks, self._evidence, durable))
        except (Stopped, LookupError) as error:
            self.fail(str(error), final=True)

    def _note_published(
        self, chunks: Sequence[FinishedChunk], tally: Tally, finished: float
    ) -> None:
        """Note that *chunks* are on disk."""
        self._journal.note_published(chunks[-1].end)
        assert self._query is not None
        self._reports.published(self._query, chunks, tally, finished)
        self._flights.published(len(chunks))
        self._look_ups.published(chunks)
        self._epoch.published(sum(chunk.size for chunk in chunks))
        if self._direct:
            self._epoch.flows()
        if not self._closed:
            self._ticks.published(chunks[-1].number, tally)
            self._reports.tell(self._processes.driver)
