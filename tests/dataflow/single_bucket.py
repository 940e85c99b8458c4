"""One bucket and the records of its changes, for tests of what is saved and of what cannot be."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

from tests.dataflow.harness import chunks
from wallaroo.dataflow.buckets import Bucket, Changes
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.entities import EntitySerializer
from wallaroo.dataflow.entity_checks import Saving
from wallaroo.dataflow.isolation import Saves, run_isolated
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.engine.realtime.state_memory import StateMemory
from wallaroo.errors import RuntimeFailure
from wallaroo.model.application import Application
from wallaroo.wire.records import Packed, Tally


class Engine:
    """A bucket and its records; a batch that fails runs again, on what was saved, and isolated."""

    limit_bytes: ClassVar[int | None] = None
    """Bytes of memory that entities may take between batches."""

    def __init__(self, made: Application) -> None:
        self.application = made
        self.program = Program(made, 1)
        self.serializer = EntitySerializer.of(self.program)
        self.records: list[bytes] = []
        self.bucket = self._read()
        self.outputs: list[bytes] = []
        self.tally = Tally()
        self.tries = 0

    def _read(self) -> Bucket:
        bucket = self.serializer.read(self.records)
        self.memory = None
        if self.limit_bytes is not None:
            directory = Path(tempfile.gettempdir())
            self.memory = StateMemory(
                self.limit_bytes, directory, self.serializer, self.program.bucket_in
            )
            for spilled, entities in zip(self.memory.states, bucket.entities, strict=True):
                spilled.update(entities)
            bucket.entities = list(self.memory.states)
            self.memory.settle()
        return bucket

    def batch(self, sent: list[str]) -> None:
        packed = self.packed(sent)
        try:
            self.run_task(packed, isolated=False)
        except RuntimeFailure:
            self.bucket = self._read()
            self.run_task(packed, isolated=True)

    def packed(self, sent: list[str]) -> list[Packed]:
        """What the first stage sends to the bucket."""
        pipeline = self.application.pipelines[0].name
        payloads = [(pipeline, text.encode()) for text in sent]
        ((block,),) = chunks(self.application, payloads, [0] * len(sent))
        return Router(self.program, TaskResults()).route(block)

    def run_task(self, packed: list[Packed], *, isolated: bool) -> None:
        self.tries += 1
        results = TaskResults()
        bucket = self.bucket

        def run(program: Program, results: TaskResults) -> Changes:
            return StateRunner(program, results).run([one.blob for one in packed], 0, bucket)

        if isolated:
            saves = Saves(Saving(self.serializer, bucket), lambda made: made)
            changes = run_isolated(self.program, results, 60.0, run, saves)
        else:
            changes = run(self.program, results)
        if changes:
            self.records.append(self.serializer.record(changes))
        if self.memory is not None:
            self.memory.settle()
        outputs, tally = results.take()
        for made in outputs:
            self.outputs += made.cut()
        self.tally.merge(tally)

    def read(self) -> Bucket:
        """What a process that starts now has."""
        return EntitySerializer.of(self.program).read(self.records)

    def state(self) -> dict[str, list[str]]:
        """The texts of each entity of it."""
        bucket = self.read()
        assert all(one.me is one for one in bucket.entities[0].values())
        return {key: one.texts for key, one in bucket.entities[0].items()}
