"""The outbox: outputs on disk until the receiver has them.

Chunks are published one after the other, several in one record: their outputs, what they changed of
the state, and what else the processes have reported are there together or not at all. Published
outputs keep their order for each sink; nothing is delivered before it is on disk.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from wallaroo.gateway.dead_letters.evidence import EvidenceFinder
from wallaroo.gateway.dead_letters.letter_outputs import LetterOutputs
from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.dead_letters.store import DeadLetterStore
from wallaroo.gateway.dead_letters.waiting import LettersOfRecord, WaitingLetters
from wallaroo.gateway.entries import (
    DELIVERED,
    NOTED,
    OUTPUTS,
    PUBLISHED,
    RESUMED,
    Delivered,
    Piece,
    Published,
    PublishedHead,
    is_resumption,
    outputs_in,
    pack_delivered,
    pack_noted,
    pack_outputs,
    pack_published,
    query_sum,
)
from wallaroo.gateway.outbox.chunks import ChunkTable, FinishedChunk, QueryProgress, joined
from wallaroo.gateway.outbox.delivery_times import DeliveryTimes
from wallaroo.gateway.outbox.metrics import MetricsTable
from wallaroo.gateway.outbox.queues import Delivery, OutputQueues, Waiting
from wallaroo.gateway.writer import LogWriter
from wallaroo.metrics.samples import HotKey, Sample
from wallaroo.model.application import Application
from wallaroo.system.failpoints import fault
from wallaroo.wire.records import FailedMessage, Outputs, Tally

_Added = tuple[Piece, int, Outputs]
"""Outputs that were appended to the log, and their address."""


class RefusedOutput(NamedTuple):
    """An output that its receiver never takes."""

    letter: FailedMessage
    """What is known of it."""
    data: bytes
    """Its bytes."""


class Outbox:
    """The outputs in a log.

    Args:
        writer: Writes the log.
        limit_bytes: Bytes of undelivered outputs over which `full` is true, and the engine waits.
        letters: Where dead letters are stored.
    """

    def __init__(self, writer: LogWriter, limit_bytes: int, letters: DeadLetterStore) -> None:
        self.clock: Callable[[], int] = time.time_ns
        """The clock by which messages have arrived, in nanoseconds since the Unix epoch."""
        self.identity = uuid.uuid4().hex
        """Random name of this outbox, as long as its log exists."""
        self.on_delivered: Callable[[int, int], None] | None = None
        """Called, in the sink's thread, with a sink and the position up to which it has all."""
        self.last_positions: dict[int, int] = {}
        """Position of the last output that was published since the outbox was opened, by sink."""
        self._writer, self._changed = writer, writer.changed
        self._limit_bytes = limit_bytes
        self.chunks = ChunkTable(writer.log)
        """What chunks have left besides outputs; used with the writer's lock."""
        self.queues = OutputQueues(writer.log)
        """The outputs; used with the writer's lock."""
        self.delivery_times = DeliveryTimes()
        """How long sinks take to write."""
        self._metrics = MetricsTable()
        self._counters = Counter[str]()
        self.letters = WaitingLetters(writer, letters)
        """Dead letters, which come to their store once they are on disk."""
        self._publishing: deque[int] = deque()
        """Addresses where publications begin that are not on disk yet."""
        self._added: dict[int, threading.Condition] = {}
        """Notified when a sink has outputs."""
        self._on_added: dict[int, Callable[[], None]] = {}
        """Called when a sink has outputs."""
        self._closing = False
        self._unreleased = 0
        """Dead letters of outputs that are not on disk yet, and so in no queue."""
        self.letter_outputs = LetterOutputs(Application("", (), {}))
        """Makes outputs of dead letters."""
        self.refusals = Policy.SET_ASIDE
        """What to do with outputs that their receivers refuse."""
        self.stopped: str | None = None
        """Why such an output stops the application."""
        self.on_stopped: Callable[[], None] = lambda: None
        """Called when one does; from any thread."""

    # --- recovery --------------------------------------------------------------------------------

    def restore(self, tables: Mapping[str, Any]) -> None:
        """Begin with *tables*, as `tables` returned them."""
        self.identity = tables["identity"]
        self.queues.restore(tables["sinks"])
        self.chunks.restore(tables["queries"])
        self._counters = Counter(tables["counters"])
        self._metrics.restore(tables["metrics"])

    def index_published(self, head: PublishedHead, address: int) -> None:
        """Note where a publication is."""
        self.queues.index_published()
        if head.has_changes:
            self.chunks.index(head.query, head.chunk, head.changed, address)

    def replay(self, entry: Published) -> None:
        """Take over what a publication that was found says, but for outputs and changes."""
        self._note_outputs(entry.more["outputs"])
        self._note_published(entry)

    def replay_delivered(self, entry: Delivered, refused: int = 0) -> None:
        """Take over what a delivery that was found says."""
        self._metrics.add_taken(entry.sink, self.queues.note_delivered(entry) - refused)

    def replay_noted(self, values: Mapping[str, Any]) -> None:
        """Take over what else a record that was found says."""
        if "outputs" in values:
            self._note_outputs(values["outputs"])
        if "sent" in values:
            self.queues.note_sent(*values["sent"])
        if "numbered" in values:
            sink, numbered = values["numbered"]
            self.queues.note_numbered(sink, numbered=numbered)
        if "forgotten" in values:
            self.chunks.forget(*values["forgotten"])
        if is_resumption(values):
            self._counters[RESUMED] += 1
        if "identity" in values:
            self.identity = values["identity"]
            self.queues.note_renumbered(values["shifts"])
            query, chunk, end = values["renewed"]
            self.chunks.renew(query, chunk, end)

    def index_noted(self, values: Mapping[str, Any]) -> None:
        """Note what else moves outputs."""
        if "openings" in values:  # of another process
            self.queues.forget_unpublished()
        if "outputs" in values:
            self.queues.index_published()
        if "identity" in values:
            self.queues.index_renumbered(values["shifts"])
            self.chunks.forget_all()

    def begin(self, letters: Sequence[LettersOfRecord] = ()) -> None:
        """Begin, with what was found, such as *letters*."""
        self.queues.begin()
        self.letters.begin(letters)
        for query, until in self.chunks.forgotten.items():
            self.chunks.release(query, until)

    def tables(self) -> dict[str, Any]:
        """What is to be known of the outputs before the next record, as plain JSON values."""
        return {
            "identity": self.identity,
            "sinks": self.queues.tables(),
            "queries": self.chunks.tables(),
            "counters": self._counters,
            "metrics": self._metrics.tables(),
        }

    # --- chunks ----------------------------------------------------------------------------------

    def publish(
        self,
        query: str,
        chunks: Sequence[FinishedChunk],
        evidence: EvidenceFinder | None = None,
        on_durable: Callable[[], None] = lambda: None,
    ) -> Tally:
        """Publish *chunks*, which follow the published ones of *query*.

        Args:
            query: Name of the query that numbers the chunks.
            chunks: The chunks.
            evidence: Decides which failed messages become dead letters, and finds their payloads;
                None to keep none.
            on_durable: Called in a turn of the log's writer once all of it is on disk.

        Returns:
            What was reported of them, without letters.

        Raises:
            Stopped: A message of a source whose policy is to stop has failed.
        """
        tally = chunks[0].tally
        for chunk in chunks[1:]:
            tally.merge(chunk.tally)
        letters: list[Letter] = []
        if evidence is not None and tally.letters:
            letters = [Letter(*kept) for kept in evidence.kept(tally.letters, chunks[-1].end)]
        tally.letters = []
        at, made = self.clock(), (outputs for chunk in chunks for outputs in chunk.outputs)
        every = [*joined(chain(made, self.letter_outputs.of(letters, at)))]
        letters = self.letter_outputs.kept(letters)
        changes = [
            (chunk.number, partition, record)
            for chunk in chunks
            for partition, record in chunk.changes
        ]
        with self._changed:
            added, counts = self._append(every)
            more = {
                "query": query,
                "at": at,
                "outputs": counts,
                "changes": [(number, of, len(record)) for number, of, record in changes],
                "letters": [letter.to_json() for letter in letters],
            }
            if len(chunks) > 1:
                more["ends"] = [chunk.end for chunk in chunks]
            before = self.chunks.progress.get(query, QueryProgress(chunks[0].number - 1, 0))
            changed = self.chunks.changed.get(query, 0)
            entry = Published(chunks[-1].number, chunks[-1].end, before.chunk, changed, tally, more)
            address = self._writer.append(
                PUBLISHED, *pack_published(entry, [record for *_, record in changes])
            )
            if changes:
                self.chunks.index(query_sum(query), entry.chunk, changed, address)
            self._note_outputs(counts)
            self._note_published(entry)
            if letters:
                self.letters.add(address, letters)
            self._writer.when_durable(lambda: self._release(added, on_durable))
            self._writer.wake()
        return tally

    def _append(self, every: Iterable[Outputs]) -> tuple[list[_Added], Counter[str]]:
        """Append *every* output, for the record that follows to publish; how many there are."""
        self._publishing.append(self._writer.log.end)
        added: list[_Added] = []
        counts = Counter[str]()
        for outputs in every:
            piece = self.queues.number(outputs, counts[str(outputs.sink)])
            address = self._writer.append(OUTPUTS, *pack_outputs(piece.number, outputs))
            added.append((piece, address, outputs))
            counts[str(piece.sink)] += piece.outputs
        return added, counts

    def _note_outputs(self, counts: Mapping[str, int]) -> None:
        self.queues.note_published(counts)
        self._counters["published"] += sum(counts.values())

    def _note_published(self, entry: Published) -> None:
        tally = entry.tally
        self.chunks.note(entry)
        self._counters["set_aside"] += tally.set_aside
        self._counters["unknown_key"] += sum(tally.unknown_keys.values())
        self._counters["late"] += sum(tally.late.values())
        self._metrics.add(tally, entry.more["at"])

    def _release(self, added: Sequence[_Added], on_durable: Callable[[], None]) -> None:
        """Let outputs be delivered, which are on disk now."""
        fault("outbox-after-publish")
        self._publishing.popleft()
        for piece, address, outputs in added:
            self.queues.add(piece, address, outputs)
            self.last_positions[piece.sink] = piece.last
        for sink in {piece.sink for piece, *_ in added}:
            if (waiting := self._added.get(sink)) is not None:
                waiting.notify_all()
            if (call := self._on_added.get(sink)) is not None:
                call()
        on_durable()

    def progress(self) -> dict[str, QueryProgress]:
        """How far each query is, by its name."""
        with self._changed:
            return dict(self.chunks.progress)

    @property
    def processed(self) -> int:
        """Offset before which the outputs of all messages are published."""
        return max((progress.end for progress in self.progress().values()), default=0)

    def changes(self, query: str, after: int, partition: int | None = None) -> Iterator[bytes]:
        """What the chunks of *query* after number *after* changed; see `ChunkTable.changes`."""
        changes = self.chunks.changes(query, after, partition)
        while True:
            with self._changed:  # other threads read the log, too
                record = next(changes, None)
            if record is None:
                return
            yield record

    def forget(self, query: str, until: int) -> None:
        """Forget what the chunks of *query* up to number *until* changed."""
        with self._changed:
            self.chunks.forget(query, until)
            self._writer.append_lazily(NOTED, pack_noted(forgotten=[query, until]))
            self._writer.when_durable(lambda: self.chunks.release(query, until))
            self._writer.wake()

    # --- outputs ---------------------------------------------------------------------------------

    def next(self, sink: int, after: int, timeout_s: float) -> Delivery | None:
        """The first published outputs of *sink* after position *after*; None after the timeout.

        Raises:
            DamagedLog: They are not as they were written.
        """
        with self._changed:
            found = self._first(sink, after)
            if found is None and timeout_s > 0 and not self._closing:
                self._waiting(sink).wait(timeout_s)
                found = self._first(sink, after)
            if found is None:
                return None
            outputs = found.outputs
            read = None if outputs is not None else self._writer.log.reader(found.address)
        if read is not None:  # without the lock, as the disk may be slow
            record = read()
            if record is None:
                with self._changed:  # it has moved, or is damaged
                    record = self._writer.log.read(found.address)
            outputs = outputs_in(record.payload, sink)
        assert outputs is not None
        return Delivery(found.piece.last, outputs, found.piece.number)

    def on_added(self, sink: int, call: Callable[[], None]) -> None:
        """Let *call* be called whenever *sink* has more outputs, in a turn of the log's writer."""
        with self._changed:
            self._on_added[sink] = call

    def _waiting(self, sink: int) -> threading.Condition:
        waiting = self._added.get(sink)
        if waiting is None:
            waiting = self._added[sink] = threading.Condition(self._writer.lock)
        return waiting

    def _first(self, sink: int, after: int) -> Waiting | None:
        return None if self._closing else self.queues.first(sink, after)

    def sent(self, sink: int, number: int) -> None:
        """Note that the receiver of *sink* has outputs up to *number*, in mid delivery."""
        with self._changed:
            self.queues.note_sent(sink, number)
            self._writer.append_unsynced(NOTED, pack_noted(sent=[sink, number]))
            self._writer.wake()

    def delivered(
        self,
        sink: int,
        position: int,
        keep_bytes: int = 0,
        refused: Sequence[RefusedOutput] = (),
        took_s: float = 0.0,
    ) -> None:
        """Let go of the outputs of *sink* up to *position*: its receiver has them.

        Args:
            sink: The sink.
            position: Position of the last of them.
            keep_bytes: Bytes of delivered outputs, the newest, that `kept` still returns.
            refused: Those of them that it does not take, which `refusals` tells what to do with.
            took_s: Seconds that writing them took, if later outputs had to wait meanwhile.
        """
        with self._changed:
            self.delivery_times.note(sink, took_s)
            entry = Delivered(sink, self.queues.whole(sink, position), keep_bytes)
            if refused:
                self._note_refused(entry, refused)
            else:
                self._writer.append_unsynced(DELIVERED, pack_delivered(entry))
            self._metrics.add_taken(sink, self.queues.remove(entry) - len(refused))
            self._writer.wake()
            self._changed.notify_all()
        if self.on_delivered is not None:
            self.on_delivered(sink, position)

    def _note_refused(self, entry: Delivered, refused: Sequence[RefusedOutput]) -> None:
        """Note a delivery that lacks *refused* outputs; these become dead letters."""
        set_aside = () if self.refusals is Policy.DROP else refused
        letters = [Letter(0, "", one.letter, data=one.data) for one in set_aside]
        every: list[Outputs] = []
        if entry.sink != self.letter_outputs.sink:  # else it would refuse them again
            every = [*joined(self.letter_outputs.of(letters, self.clock()))]
            letters = self.letter_outputs.kept(letters)
        added, counts = self._append(every)
        values = {"letters": [letter.to_json() for letter in letters], "refused": len(refused)}
        if counts:
            values["outputs"] = counts
        address = self._writer.append(NOTED, pack_noted(delivered=entry, **values))
        self.letters.add(address, letters)
        self._note_outputs(counts)
        self._unreleased += counts.total()

        def on_durable() -> None:
            self._unreleased -= counts.total()

        self._writer.when_durable(lambda: self._release(added, on_durable))

    def kept(self, sink: int) -> list[Delivery]:
        """What `delivered` has kept of *sink*, in order.

        Raises:
            DamagedLog: Something is not as it was written.
        """
        with self._changed:
            return list(self.queues.kept(sink))

    # --- what it knows ---------------------------------------------------------------------------

    def numbering(self, sink: str, letters: int = 32) -> str:
        """Name of the numbers of outputs of the sink called *sink*: hexadecimal digits, a hyphen.

        The identity, of which it has at most so many *letters*, comes first.
        """
        digest = hashlib.blake2s(sink.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{self.identity[:letters]}-{digest}"

    def delivered_to(self, sink: int) -> int:
        """Number of the last output that the receiver of *sink* has, and every one before."""
        with self._changed:
            return self.queues.delivered_to(sink)

    def published_to(self, sink: int) -> int:
        """Number of the last output that was ever published to *sink*, 0 if there was none."""
        with self._changed:
            return self.queues.published_to(sink)

    def sent_to(self, sink: int) -> int:
        """Number of the last output that the receiver of *sink* is known to have; 0 for none."""
        with self._changed:
            return self.queues.sent_to(sink)

    def note_numbered(self, sink: int, *, numbered: bool) -> bool | None:
        """Remember whether *sink* is numbered; what was remembered before, None if nothing."""
        with self._changed:
            before = self.queues.note_numbered(sink, numbered=numbered)
            if before != numbered:
                self._writer.append_lazily(NOTED, pack_noted(numbered=[sink, numbered]))
                self._writer.wake()
        return before

    @property
    def undelivered(self) -> int:
        """Outputs published and not delivered."""
        return self._unreleased + self.queues.count

    @property
    def full(self) -> bool:
        """Whether more outputs wait for their receivers than the limit allows."""
        return self.queues.bytes >= self._limit_bytes

    def counters(self) -> dict[str, int]:
        """Totals since the outbox was new.

        Names are `published`, `delivered`, `set_aside`, `unknown_key` and `late`, and those of
        `WaitingLetters.counters`.
        """
        letters = self.letters.counters()
        with self._changed:
            return {**self._counters, "delivered": self._metrics.taken.total(), **letters}

    def samples(self, pipelines: Sequence[Sequence[str]]) -> list[Sample]:
        """The metrics of published chunks; *pipelines* are the names of pipelines by source."""
        with self._changed:
            return list(self._metrics.samples(pipelines))

    def hot_keys(self) -> list[HotKey]:
        """The keys with the most messages recently, the first first."""
        with self._changed:
            return self._metrics.hot_keys()

    def of_sink(self, sink: int) -> tuple[int, int]:
        """Outputs that the receiver of *sink* has ever taken, without refused ones, and waiting."""
        with self._changed:
            return self._metrics.taken[sink], self.queues.undelivered(sink)

    @property
    def needed_from(self) -> int | None:
        """Address in the log from which on something else than outputs is needed; None if nothing.

        These are changes, publications that are not on disk yet, and letters that are not stored.
        """
        places = [self.chunks.needed_from, *self._publishing, self.letters.needed_from]
        return min((at for at in places if at is not None), default=None)

    def renewal(self, query: str, chunk: int, end: int) -> dict[str, Any]:
        """What to note so that *query* resumes after *chunk*, and outputs get new numbers.

        Old numbers may have been used for outputs that are lost, or that are made again
        differently.
        """
        return {
            "identity": uuid.uuid4().hex,
            "shifts": self.queues.shifts(),
            "renewed": [query, chunk, end],
        }

    def close(self) -> None:
        """Wake all waiting threads; `next` returns nothing from now on."""
        with self._changed:
            self._closing = True
            for waiting in self._added.values():
                waiting.notify_all()
