"""One bucket with its log in memory, for tests of what is saved and of what cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.dataflow.harness import chunks, cut
from wallaroo.dataflow.bucket_logs import Head
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.entities import EntityCache
from wallaroo.dataflow.entity_checks import Saving
from wallaroo.dataflow.isolation import Saves, run_isolated
from wallaroo.dataflow.program import Program, codecs_of
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import Application
from wallaroo.wire.records import Packed, Tally


class Log:
    """A bucket's log in memory; a copy of it is a checkpoint."""

    def __init__(
        self, head: Head | None = None, records: Mapping[int, bytes] | None = None
    ) -> None:
        self._head = head
        self.by_place = dict(records or {})
        self.reads = 0
        self.looks = 0

    def head(self) -> Head | None:
        return self._head

    def record(self, place: int) -> bytes:
        self.looks += 1
        return self.by_place[place]

    def records(self) -> list[bytes]:
        self.reads += 1
        return [record for _, record in sorted(self.by_place.items())]

    def append(self, head: Head, record: bytes, base: bytes | None = None) -> None:
        if base is not None:
            self.by_place = {-1: base}
        self._head = head
        assert head.count - 1 not in self.by_place
        self.by_place[head.count - 1] = record

    def copy(self) -> Log:
        return Log(self._head, self.by_place)

    @property
    def bytes(self) -> int:
        return sum(map(len, self.by_place.values()))


class Engine:
    """A bucket with its log; tasks that fail are tried again, as Spark does."""

    def __init__(self, made: Application) -> None:
        self.application = made
        self.program = Program(made, 1)
        self.cache = EntityCache([p.name for p in self.program.partitions], codecs_of(self.program))
        self.log = Log()
        self.outputs: list[bytes] = []
        self.tally = Tally()
        self.tries = 0

    def batch(self, sent: list[str]) -> None:
        payloads = [("p", text.encode()) for text in sent]
        ((block,),) = chunks(self.application, payloads, [0] * len(sent))
        packed = Router(self.program, TaskResults(lambda _outputs, _tally: None)).route(block)
        try:
            self.run_task(packed, isolated=False)
        except RuntimeFailure:
            self.run_task(packed, isolated=True)

    def run_task(self, packed: list[Packed], *, isolated: bool) -> None:
        self.tries += 1
        made, told = list[bytes](), Tally()

        def deliver(outputs: Any, tally: Tally) -> None:
            told.merge(tally)
            for _, lengths, data in outputs:
                made.extend(cut(lengths, data))

        results = TaskResults(deliver)
        bucket = self.cache.open(0, self.log)

        def run(program: Program, results: TaskResults) -> Changes:
            return StateRunner(program, results).run([one.blob for one in packed], 0, bucket)

        if isolated:
            saves = Saves(Saving(self.cache, bucket), lambda made: made)
            changes = run_isolated(self.program, results, 60.0, run, saves)
        else:
            changes = run(self.program, results)
        self.cache.commit(0, self.log, changes)
        results.close()
        self.outputs += made
        self.tally.merge(told)

    def state(self) -> dict[str, list[str]]:
        """What a process that starts now has."""
        bucket = EntityCache(self.cache.partitions, self.cache.codecs).open(0, self.log)
        assert all(one.me is one for one in bucket.entities[0].values())
        return {key: one.texts for key, one in bucket.entities[0].items()}
