"""A program driven in one process, as an engine on several drives it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers import framing_of
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.model.application import Application
from wallaroo.wire.records import TICK_SOURCE, Block, Outputs, Packed, Schedule, Tally

BUCKETS = 3
Sent = list[tuple[str, bytes]]


class Driven:
    """A program that runs batches in this process."""

    def __init__(self, application: Application) -> None:
        self.program = Program(application, BUCKETS)
        self.tally = Tally()
        self.outputs: dict[str, list[bytes]] = defaultdict(list)
        self._levels = range(1, self.program.levels.count + 1)
        self._serializer = EntitySerializer.of(self.program)
        self.logs: dict[tuple[int, int], list[bytes]] = {
            (level, bucket): [] for level in self._levels for bucket in range(BUCKETS)
        }
        self.restart()

    def go_on_from(self, earlier: Driven) -> None:
        """Go on with what *earlier*, other code, has saved."""
        self.logs = earlier.logs
        self.restart()

    def restart(self) -> None:
        """Forget what is in memory, and read it from the logs of the buckets."""
        self._buckets = {bucket: self._serializer.read(log) for bucket, log in self.logs.items()}

    def batch(self, blocks: Sequence[Sequence[Block]]) -> None:
        """Run *blocks*, each in a task of its own, then level by level what is sent to buckets."""
        sent: list[Packed] = []
        for block in blocks:
            results = TaskResults()
            sent += Router(self.program, results).route(block)
            self._deliver(*results.take())
        for level in self._levels:
            for bucket in reversed(range(BUCKETS)):
                blobs = [p.blob for p in sent if (p.level, p.bucket) == (level, bucket)]
                if blobs:
                    results = TaskResults()
                    runner = StateRunner(self.program, results, level)
                    changes = runner.run(blobs, bucket, self._buckets[level, bucket])
                    if changes:
                        record = self._serializer.record(changes)
                        self.logs[level, bucket].append(record)
                    self._deliver(*results.take())
                    new = runner.sent()
                    assert all(packed.level > level for packed in new)
                    sent += new

    def state(self) -> dict[str, dict[Any, Any]]:
        merged: dict[str, dict[Any, Any]] = {p.name: {} for p in self.program.partitions}
        for bucket in self._buckets.values():
            for partition, entities in zip(self.program.partitions, bucket.entities, strict=True):
                assert not merged[partition.name].keys() & entities.keys()
                merged[partition.name].update(entities)
        return merged

    def due_ns(self) -> int | None:
        """When the clock has to close windows next."""
        schedule = Schedule()
        schedule.note(self.tally)
        return schedule.next_ns

    def _deliver(self, outputs: Sequence[Outputs], tally: Tally) -> None:
        self.tally.merge(tally)
        for made in outputs:
            self.outputs[self.program.application.sinks[made.sink].name] += made.cut()


def drive_all(application: Application, sent: Sent, cuts: Sequence[int]) -> Driven:
    """*application* after *sent*, cut as by `chunks`, with an example of every failed message."""
    driven = Driven(application)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "MAX_EXAMPLES", 10_000)
        for batch in chunks(application, sent, cuts):
            driven.batch(batch)
    return driven


def chunks(application: Application, sent: Sent, cuts: Sequence[int]) -> list[list[list[Block]]]:
    """*sent* in batches of blocks of chunks; *cuts* tell what ends before each message."""
    indices = {source.name: number for number, source in enumerate(application.sources)}
    batches: list[list[list[Block]]] = [[[]]]
    for first, ((name, payload), cut) in enumerate(zip(sent, cuts, strict=True)):
        if cut == 3:
            batches.append([[]])
        elif cut == 2:
            batches[-1].append([])
        block, source = batches[-1][-1], indices[name]
        data = framing_of(application.sources[source]).frame(payload)
        if cut or not block or block[-1].source != source:
            block.append(Block(first, 1, source, 0, data))
        else:
            last = block[-1]
            block[-1] = last._replace(messages=last.messages + 1, data=last.data + data)
    return batches


def tick(number: int, now_ns: int) -> Block:
    """What the journal holds where the clock is to be looked at."""
    return Block(number, 1, TICK_SOURCE, now_ns, b"")
