"""The second stage of the program as Spark's stateful processor: one call for each bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from wallaroo.engine.job import Job, WorkerContext, worker_context
from wallaroo.engine.results import TaskResults
from wallaroo.engine.spark.quiet import no_garbage_collection
from wallaroo.engine.spark.shipping import found
from wallaroo.engine.spark.source import TOKEN
from wallaroo.engine.worker import Worker

OUTPUT_SCHEMA = "token string"
"""A row for each token under which a task has left outputs at the edge."""


class BucketProcessor(StatefulProcessor):
    """Runs the state computations of one bucket's messages, in order of arrival.

    Outputs do not travel through Spark: a task leaves them at the edge under a token and returns
    the token, so that a batch commits exactly the outputs of the task attempts that it is made of.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._context: WorkerContext | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: a version and a log for each bucket."""
        self._log = _StoredLog(handle)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Run one bucket; *key* holds its slot."""
        with no_garbage_collection():
            if self._context is None:
                self._context = worker_context(self._job, found)
                self._token, self._results = self._context.results()
                yield Row(token=self._token)
            positions: list[tuple[int, bytes]] = []
            for row in rows:
                blob = bytes(row.blob)
                if blob[:1] == TOKEN:
                    yield Row(token=blob[1:].decode())
                else:
                    positions.append((row.position, blob))
            if positions:
                positions.sort(key=lambda positioned: positioned[0])
                self._run(key[0], [blob for _, blob in positions], self._context, self._results)

    def _run(
        self, slot: int, packed: Iterable[bytes], context: WorkerContext, results: TaskResults
    ) -> None:
        bucket = context.cache.open(slot, self._log)
        changed = Worker(context.program, results).run(packed, bucket.entities)
        context.cache.commit(slot, self._log, changed)

    def close(self) -> None:
        """Leave the rest of the outputs at the edge, before the task counts as done."""
        if self._context is not None:
            self._results.close(always=True)
            self._context = None


class _StoredLog:
    """A bucket's log in Spark's state store; which bucket, Spark has set before each call."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._version = handle.getValueState("version", "version string")
        self._records = handle.getListState("log", "record binary")

    def version(self) -> str | None:
        value = self._version.get()
        return None if value is None else value[0]

    def records(self) -> Iterable[bytes]:
        return (bytes(row[0]) for row in self._records.get())

    def append(self, version: str, record: bytes) -> None:
        self._records.appendValue((record,))
        self._version.update((version,))

    def replace(self, version: str, record: bytes) -> None:
        self._records.put([(record,)])
        self._version.update((version,))
