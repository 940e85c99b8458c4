"""The journal as a replayable source of Spark, with the first stage of the program in its readers.

Running the stateless steps where the messages are read saves a process and a copy of all data.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.decoding import Router
from wallaroo.dataflow.isolation import Run, run_isolated
from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.records import JOURNAL, Chunk
from wallaroo.dataflow.user_logs import WORK
from wallaroo.engine.batch_sizing import Pace
from wallaroo.engine.gateway_api import Range
from wallaroo.engine.microbatch.job import Job, worker_context
from wallaroo.engine.spark.gc_control import no_garbage_collection
from wallaroo.engine.spark.shipping import locate
from wallaroo.engine.spark.task_epoch import task_epoch
from wallaroo.system.lifeline import die_with_starter

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "level int, slot int, position bigint, blob binary"
"""A row for each bucket and block: the level that takes it and where it goes there, its place in
the order of arrival, what it is."""
TOKEN = b"t"
"""First byte of a blob that is a token under which a task has staged outputs."""

_HELD_S = 0.05
"""Pause of a query that is held, before it checks again."""


def rows(packed: Sequence[Packed], slots: Sequence[int], position: int) -> pa.RecordBatch:
    """*packed* as rows of `SCHEMA`, for the slots of their buckets."""
    import pyarrow as pa

    columns = [
        pa.array([row.level for row in packed], pa.int32()),
        pa.array([slots[row.bucket] for row in packed], pa.int32()),
        pa.array([position] * len(packed), pa.int64()),
        pa.array([row.blob for row in packed], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, ["level", "slot", "position", "blob"])


def job_to_option(job: Job) -> str:
    """*job* as text, for the options of the source (which reach no process outside the cluster)."""
    return base64.b64encode(pickle.dumps(job)).decode("ascii")


class LogRange(InputPartition):
    """Messages of one log, for one task."""

    def __init__(self, messages: Range) -> None:
        super().__init__(messages)
        self.messages = messages


class JournalSource(DataSource):
    """Data source `wallaroo`; its option `job` is what `job_to_option` made."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._job: Job = pickle.loads(base64.b64decode(options["job"]))

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "wallaroo"

    def schema(self) -> str:
        """Columns of the rows."""
        return SCHEMA

    def streamReader(self, schema: Any) -> JournalReader:  # noqa: ARG002, N802
        """The reader."""
        return JournalReader(self._job)


class JournalReader(DataSourceStreamReader):
    """Reads the journal, the one log; a batch takes what has arrived, within its bounds."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._gateway: Any = None
        self._pace = Pace(job.batch.seconds)

    def _connected(self) -> Any:
        if self._gateway is None:
            die_with_starter()  # Spark's Java: else calls to a lost gateway are repeated for long
            self._gateway = self._job.connect()
        return self._gateway

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a new query starts."""
        return {"offset": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        """Where the next batch ends; waits a while for messages, so that idling costs nothing."""
        job = self._job
        if not job.readers.now():
            time.sleep(_HELD_S)
            return start
        after, pace = int(start["offset"]), self._pace
        if pace.end(after) and job.costs is not None:
            job.costs.write(pace.costs)
        latest = self._connected().latest(
            {JOURNAL: after},
            job.batch.max_bytes,
            pace.messages,
            job.idle_wait_s,
            start.get("opening"),
        )
        if not job.readers.now():  # held while it waited: what has come meanwhile stays there
            return start
        end = latest.end[JOURNAL]
        pace.begin(after, end)
        # an import's name in the start, or another opening, does not make a batch
        return start if end == after else {"offset": end, "opening": latest.opening}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a batch; each is read by one task, in order of arrival."""
        readers = max(1, self._job.readers.now())
        ranges = self._connected().plan(
            {JOURNAL: start["offset"]}, {JOURNAL: end["offset"]}, readers
        )
        return [LogRange(messages) for messages in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the first stage over a range, block by block."""
        assert isinstance(partition, LogRange)
        with no_garbage_collection():
            yield from _route(self._job, partition.messages)

    def commit(self, end: dict[str, Any]) -> None:
        """Forget what a committed batch has consumed."""
        self._connected().consume({JOURNAL: end["offset"]})


def _route(job: Job, messages: Range) -> Iterator[pa.RecordBatch]:
    context = worker_context(job, locate)
    token, results = context.results()
    router = Router(context.program, results)
    isolates, patience = is_tried_again(job), CallTimeout(job.call_limit_s)
    patience.start()
    try:
        for block in context.gateway.read(messages):
            WORK.begin(str(block[0].first))
            if isolates:
                packed = run_isolated(context.program, results, job.call_limit_s, _routing(block))
            else:
                packed = router.route(block)
            if packed:
                yield rows(packed, job.slots, block[0].first)
    finally:
        patience.stop()
    if results.close():
        yield rows([Packed(0, 0, TOKEN + token.encode())], job.slots, messages.start.number)


def _routing(block: Sequence[Chunk]) -> Run[list[Packed]]:
    return lambda program, results: Router(program, results).route(block)


def is_tried_again(job: Job) -> bool:
    """Whether this task, or its batch, has failed before, perhaps because of one of its messages.

    Where a message takes a whole executor with it, and not only its process, Spark may give up the
    batch without trying the task again.
    """
    context = TaskContext.get()
    if context is None:
        return False
    return context.attemptNumber() > 0 or task_epoch().number == job.suspect
