"""The outbox: outputs on disk until the receiver has them.

Chunks are published one after the other, several in one transaction: their outputs, what they
changed of the state, and what else the processes have reported are there together or not at all.
Published outputs keep their order for each sink and are deleted when they are delivered.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from wallaroo.gateway.database import connect, transaction, unsynced
from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.dead_letters.store import DeadLetterLimits, DeadLetterStore
from wallaroo.gateway.marks import MarkWriter
from wallaroo.gateway.outbox.chunks import SCHEMA as CHUNKS_SCHEMA
from wallaroo.gateway.outbox.chunks import ChunkTable, FinishedChunk, joined
from wallaroo.gateway.outbox.metrics import SCHEMA as METRICS_SCHEMA
from wallaroo.gateway.outbox.metrics import MetricsTable
from wallaroo.gateway.outbox.queues import SCHEMA as QUEUES_SCHEMA
from wallaroo.gateway.outbox.queues import Delivery, OutputQueues
from wallaroo.gateway.row_sums import keep_sums
from wallaroo.metrics.samples import HotKey, Sample
from wallaroo.system.failpoints import fault
from wallaroo.wire.records import FailedMessage, Outputs, Tally

SCHEMA = f"""
{CHUNKS_SCHEMA}
{QUEUES_SCHEMA}
CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS identity (name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS numbering (sink INTEGER PRIMARY KEY, numbered INTEGER NOT NULL);
"""


class RefusedOutput(NamedTuple):
    """An output that its receiver never takes."""

    letter: FailedMessage
    """What is known of it."""
    data: bytes
    """Its bytes."""


class Outbox:
    """The outbox in one SQLite database.

    Args:
        path: File of the database; created if missing.
        limit_bytes: Bytes of undelivered outputs over which `full` is true, and the engine waits.
        dead_letters: Bounds of the dead letters.
    """

    def __init__(
        self, path: Path, limit_bytes: int, dead_letters: DeadLetterLimits | None = None
    ) -> None:
        self.clock: Callable[[], int] = time.time_ns
        """The clock by which messages have arrived, in nanoseconds since the Unix epoch."""
        self._limit_bytes = limit_bytes
        self._database = connect(path)
        self._database.executescript(SCHEMA + METRICS_SCHEMA)
        self._chunks = ChunkTable(self._database)
        self._queues = OutputQueues(self._database)
        self._metrics = MetricsTable(self._database)
        self._dead_letters = DeadLetterStore(self._database, dead_letters or DeadLetterLimits())
        keep_sums(self._database)
        self._database.execute(
            "INSERT INTO identity SELECT ? WHERE NOT EXISTS (SELECT * FROM identity)",
            (uuid.uuid4().hex,),
        )
        (self.identity,) = self._database.execute("SELECT name FROM identity").fetchone()
        """Random name of this outbox, as long as its file exists."""
        self._mark = MarkWriter(path)
        self._changed = threading.Condition()
        self._closing = False
        self._waits_end = False
        self.on_delivered: Callable[[int, int], None] | None = None
        """Called, in the sink's thread, with a sink and the position up to which it has all."""
        self._bytes, self._count = self._queues.size()

    @property
    def last_positions(self) -> dict[int, int]:
        """Position of the last output that was published since the outbox was opened, by sink."""
        return self._queues.last_positions

    def delivered_to(self, sink: int) -> int:
        """Outputs delivered to *sink* since the outbox was new: the number of the next one."""
        with self._changed:
            return self._queues.delivered_to(sink)

    def published_to(self, sink: int) -> int:
        """Number of the last output that was ever published to *sink*, 0 if there was none."""
        with self._changed:
            return self._queues.published_to(sink)

    def note_numbered(self, sink: int, *, numbered: bool) -> bool | None:
        """Remember whether *sink* is numbered; what was remembered before, None if nothing."""
        with self._changed:
            row = self._database.execute(
                "SELECT numbered FROM numbering WHERE sink = ?", (sink,)
            ).fetchone()
            before = None if row is None else bool(row[0])
            if before != numbered:
                with transaction(self._database):
                    self._database.execute(
                        "INSERT OR REPLACE INTO numbering VALUES (?, ?)", (sink, numbered)
                    )
        return before

    @property
    def undelivered(self) -> int:
        """Outputs published and not delivered."""
        return self._count

    @property
    def full(self) -> bool:
        """Whether more outputs wait for their receivers than the limit allows."""
        return self._bytes >= self._limit_bytes

    def counters(self) -> dict[str, int]:
        """Totals since the outbox was new.

        Names are `published`, `delivered`, `set_aside`, `unknown_key` and `late`; and of dead
        letters, those that are kept now, `letters`, and those dropped over limits, `letters_gone`.
        """
        with self._changed:
            counters = dict(self._database.execute("SELECT name, value FROM counter"))
            totals = self._dead_letters.totals
        return {**counters, "letters": totals["letters"], "letters_gone": totals["dropped"]}

    def samples(self, pipelines: Sequence[Sequence[str]]) -> list[Sample]:
        """The metrics of published chunks; *pipelines* are the names of pipelines by source."""
        with self._changed:
            return list(self._metrics.samples(pipelines))

    def hot_keys(self) -> list[HotKey]:
        """The keys with the most messages recently, the first first."""
        with self._changed:
            return self._metrics.hot_keys()

    def by_sink(self) -> dict[int, tuple[int, int]]:
        """For each sink: outputs delivered since the outbox was new, and outputs that wait."""
        with self._changed:
            return self._queues.by_sink()

    @contextlib.contextmanager
    def chunks(self) -> Iterator[ChunkTable]:
        """What chunks have left besides outputs, for one transaction."""
        with self._changed, transaction(self._database):
            yield self._chunks

    @contextlib.contextmanager
    def dead_letters(self) -> Iterator[DeadLetterStore]:
        """The dead letters, for one transaction."""
        with self._changed, transaction(self._database):
            yield self._dead_letters

    def publish(
        self, run: str, chunks: Sequence[FinishedChunk], evidence: EvidenceFinder | None = None
    ) -> Tally:
        """Commit *chunks*, which follow the published ones of *run*.

        Args:
            run: Name of the query that numbers the chunks.
            chunks: The chunks.
            evidence: Decides which failed messages become dead letters, and finds their payloads;
                None to keep none.

        Returns:
            What was reported of them, without letters.

        Raises:
            Stopped: A message of a source whose policy is to stop has failed.
        """
        tally = Tally()
        for chunk in chunks:
            tally.merge(chunk.tally)
        with self._changed:
            count = size = 0
            with transaction(self._database):
                for outputs in joined(chunks):
                    count += self._queues.add(outputs)
                    size += len(outputs.data)
                self._count_up("published", count)
                self._chunks.add(run, chunks)
                if evidence is not None and tally.letters:
                    self._dead_letters.keep(evidence.kept(tally.letters, chunks[-1].end))
                tally.letters = []
                self._count_up("set_aside", tally.set_aside)
                self._count_up("unknown_key", sum(tally.unknown_keys.values()))
                self._count_up("late", sum(tally.late.values()))
                self._metrics.add(tally, self.clock())
                fault("outbox-before-publish")
            fault("outbox-after-publish")
            self._mark.note(self.identity, published_chunks(self._database))
            self._count += count
            self._bytes += size
            self._changed.notify_all()
        return tally

    def next(self, sink: int, after: int, timeout_s: float) -> Delivery | None:
        """The first published outputs of *sink* after position *after*; None after the timeout."""
        with self._changed:
            found = self._first(sink, after)
            if found is None and not self._closing:
                self._changed.wait(timeout_s)
                found = self._first(sink, after)
            return found

    def sent(self, sink: int, number: int) -> None:
        """Note that the receiver of *sink* has outputs up to *number*, in mid delivery."""
        with self._changed, unsynced(self._database), transaction(self._database):
            self._queues.note_sent(sink, number)

    def sent_to(self, sink: int) -> int:
        """Number of the last output that the receiver of *sink* is known to have; 0 for none."""
        with self._changed:
            return self._queues.sent_to(sink)

    def delivered(
        self,
        sink: int,
        position: int,
        keep_bytes: int = 0,
        refused: Sequence[RefusedOutput] = (),
    ) -> None:
        """Delete the outputs of *sink* up to *position*: its receiver has them.

        Args:
            sink: The sink.
            position: Position of the last of them.
            keep_bytes: Bytes of delivered outputs, the newest, that `kept` still returns.
            refused: Those of them that are to become dead letters.
        """
        with self._changed, unsynced(self._database), transaction(self._database):
            size, count = self._queues.remove(sink, position, keep_bytes)
            for one in refused:
                self._dead_letters.keep_damaged(0, "", one.letter, one.data)
            self._count_up("delivered", count)
            self._bytes -= size
            self._count -= count
            self._changed.notify_all()
        if self.on_delivered is not None:
            self.on_delivered(sink, position)

    def kept(self, sink: int) -> list[Delivery]:
        """What `delivered` has kept of *sink*, in order, without what is damaged."""
        with self._changed:
            return self._queues.kept(sink)

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until the outbox is not full; returns whether it is not."""
        with self._changed:
            self._changed.wait_for(lambda: not self.full or self._waits_end, timeout_s)
            return not self.full

    def end_waits(self) -> None:
        """Let `wait_for_room` return, now and from now on."""
        with self._changed:
            self._waits_end = True
            self._changed.notify_all()

    def close(self) -> None:
        """Wake all waiting threads, and close the database."""
        with self._changed:
            self._closing = self._waits_end = True
            self._changed.notify_all()
            self._database.close()
            self._mark.close()

    def _count_up(self, name: str, by: int) -> None:
        self._database.execute(
            "INSERT INTO counter VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            (name, by),
        )

    def _first(self, sink: int, after: int) -> Delivery | None:
        return None if self._closing else self._queues.first(sink, after)


def cut_outputs(outputs: Outputs) -> list[bytes]:
    """The single outputs of *outputs*, in order."""
    cut, start = [], 0
    for length in array("I", outputs.lengths):
        cut.append(outputs.data[start : start + length])
        start += length
    return cut


def published_chunks(database: sqlite3.Connection) -> int:
    """Chunks that the outbox in *database* has published since it was new."""
    (count,) = database.execute("SELECT coalesce(sum(chunk), 0) FROM progress").fetchone()
    return int(count)
