"""A level of the program as Spark's stateful processor: one call for each bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from wallaroo.dataflow.bucket_logs import Head, Stamp, damaged, log_name
from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.entity_checks import Saving
from wallaroo.dataflow.isolation import Saves, run_isolated
from wallaroo.dataflow.log_rows import BASE, LogRow, records_in, rows_of
from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.process_health import note_connection_of_task
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.state_runner import StateRunner
from wallaroo.dataflow.user_logs import WORK
from wallaroo.engine.microbatch.job import Job, WorkerContext, worker_context
from wallaroo.engine.microbatch.last_writes import last_written, log_key
from wallaroo.engine.microbatch.source import TOKEN, is_tried_again
from wallaroo.engine.spark.gc_control import no_garbage_collection
from wallaroo.engine.spark.shipping import locate
from wallaroo.engine.spark.task_epoch import task_epoch


class LevelProcessor(StatefulProcessor):
    """Runs one level over one bucket's messages, in order of arrival.

    What goes to later levels passes through. Outputs do not travel through Spark: a task stages
    them at the gateway under a token and returns the token, so that a batch commits exactly the
    outputs of the task attempts that it is made of.

    Args:
        job: The job.
        level: The level.
    """

    def __init__(self, job: Job, level: int) -> None:
        self._job = job
        self._level = level
        self._context: WorkerContext | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: a version and a log for each bucket."""
        self._log = StoredLog(handle)
        api = handle._statefulProcessorApiClient
        note_connection_of_task(api._client_socket.fileno())

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Run one bucket; *key* holds its slot."""
        with no_garbage_collection():
            if self._context is None:
                self._context = worker_context(self._job, locate)
                self._token, self._results = self._context.results()
                self._epoch = task_epoch()
                self._state_runner = StateRunner(self._context.program, self._results, self._level)
                self._patience = CallTimeout(self._job.call_limit_s)
                self._patience.start()
                self._isolates = is_tried_again(self._job)
                yield _row(0, self._job.slots[0], TOKEN + self._token.encode())
            positions: list[tuple[int, bytes]] = []
            for row in rows:
                if row.level == self._level:
                    positions.append((row.position, bytes(row.blob)))
                else:
                    yield row
            if positions:
                positions.sort(key=lambda positioned: positioned[0])
                blobs = [blob for _, blob in positions]
                sent, written = self._run(key[0], blobs, self._context)
                for packed in sent:
                    yield _row(packed.level, self._job.slots[packed.bucket], packed.blob)
                if written is not None:
                    note = f"{self._token} {log_key(self._level, key[0])} {written}"
                    yield _row(0, self._job.slots[0], TOKEN + note.encode())

    def _run(
        self, slot: int, packed: Sequence[bytes], context: WorkerContext
    ) -> tuple[list[Packed], int | None]:
        """Run a bucket; what it sends to later levels, and the sum of its log if it was written."""
        cache, epoch, level = context.cache(self._level), self._epoch, self._level
        checkpoint = self._job.checkpoint
        stamp = Stamp(
            log_name(epoch.run, level, slot),
            epoch.number,
            lambda: last_written(checkpoint, epoch.number, level, slot),
        )
        bucket = cache.open(slot, self._log, stamp)

        def run(program: Program, results: TaskResults) -> tuple[Changes, list[Packed]]:
            runner = StateRunner(program, results, self._level)
            return runner.run(packed, slot, bucket), runner.sent()

        WORK.begin(f"{epoch.number}.{level}.{slot}")
        if self._isolates:
            limit_s = self._job.call_limit_s
            saves = Saves(Saving(cache, bucket), lambda made: made[0])
            changes, sent = run_isolated(context.program, self._results, limit_s, run, saves)
        else:
            changes, sent = self._state_runner.run(packed, slot, bucket), self._state_runner.sent()
        written = cache.commit(slot, self._log, changes, stamp)
        self._state_runner.note_state(slot, bucket)
        return sent, bucket.head.sum if written else None

    def close(self) -> None:
        """Stage the remaining outputs at the gateway, before the task counts as finished."""
        if self._context is not None:
            self._patience.stop()
            self._results.close(always=True)
            self._context = None


def _row(level: int, slot: int, blob: bytes) -> Row:
    return Row(level=level, slot=slot, position=0, blob=blob)


class StoredLog:
    """A bucket's log in Spark's state store; which bucket, Spark has set before each call."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState(
            "head", "versions string, count bigint, base_bytes bigint, tail_bytes bigint"
        )
        self._records = handle.getMapState("log", "place bigint", "record binary")

    def head(self) -> Head | None:
        """See `BucketLog.head`."""
        head = self._head.get()
        return None if head is None else Head.from_text(*head)

    def record(self, place: int) -> bytes:
        """See `BucketLog.record`."""
        parts: list[bytes] = []
        at: int | None = place
        while at is not None and (found := self._records.getValue((at,))) is not None:
            row = LogRow(at, bytes(found[0]))
            parts.append(row.content)
            at = row.next_place
        if not parts:
            msg = f"a log has no record {place}"
            raise damaged(msg)
        return b"".join(parts)

    def records(self) -> Iterable[bytes]:
        """See `BucketLog.records`."""
        return records_in((place, bytes(part)) for (place,), (part,) in self._records.iterator())

    def append(self, head: Head, record: bytes, base: bytes | None = None) -> None:
        """See `BucketLog.append`."""
        if base is not None:
            self._records.clear()
        for row in (*rows_of(BASE, base or b""), *rows_of(head.count - 1, record)):
            self._records.updateValue((row.place,), (row.content,))
        sizes = head.count, head.base_bytes, head.tail_bytes
        self._head.update((head.text(), *sizes))
