"""One streaming query for the whole application, so that all its pipelines move together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.program import Program
from wallaroo.dataflow.records import Schedule, Tally
from wallaroo.engine.base import Batch, Failure, OnBatch, Progress
from wallaroo.engine.gateway_api import GatewayAPI, Stopped
from wallaroo.engine.microbatch.job import Job
from wallaroo.engine.microbatch.last_writes import note_written
from wallaroo.engine.microbatch.processor import LevelProcessor
from wallaroo.engine.microbatch.source import SCHEMA, TOKEN, JournalSource, job_to_option
from wallaroo.engine.spark.checkpoint.progress import planned_end, run_of
from wallaroo.engine.spark.supervised_query import failure_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


_PHASES = {
    "wait": ("latestOffset",),
    "plan": ("getBatch", "queryPlanning"),
    "log": ("walCommit",),
    "run": ("addBatch",),
    "commit": ("commitOffsets", "commitBatch"),
}
"""Spark's names for the parts of a phase."""


_AT_ONCE = 0
"""Time of a tick if it is not known which windows must close, so that all buckets report: at the
start, and if the answer to a publish was lost."""


class SparkApplication:
    """An application running on Spark.

    Args:
        query: The query that runs it.
        commit: What publishes its batches.
    """

    def __init__(self, query: StreamingQuery, commit: _Commit) -> None:
        self._query = query
        self._commit = commit
        self._reported = -1
        """Last batch that `progress` returned."""

    def failure(self) -> Failure | None:
        """Why the query stopped by itself; None while it runs."""
        if self._query.isActive:
            return None
        if self._commit.stopped is not None:
            return Failure(str(self._commit.stopped), final=True)
        error = self._query.exception()
        return Failure("the query stopped") if error is None else failure_of(str(error))

    def progress(self) -> Sequence[Progress]:
        """The batches that have ended since the last call; the last ten at most."""
        # as text: PySpark's own objects ask Java for each of their hundred fields
        recent = [json.loads(one.json()) for one in self._query._jsq.recentProgress()]
        fresh = [
            _progress(one) for one in recent if _is_batch(one) and one["batchId"] > self._reported
        ]
        if fresh:
            self._reported = fresh[-1].number
        return fresh

    def waits(self) -> bool:
        """Whether it waits for messages, with no batch in progress."""
        return str(self._query.status["message"]).startswith("Getting offsets")

    def finish_batch(self) -> None:
        """Wait until the batch in progress, if there is one, is committed."""
        self._query.processAllAvailable()

    def stop(self) -> None:
        """Stop the query."""
        self._query.stop()


def _is_batch(report: Mapping[str, Any]) -> bool:
    """Whether Spark reports a batch, and not that it is idle."""
    return "addBatch" in report["durationMs"] and "commitOffsets" in report["durationMs"]


def _progress(report: Mapping[str, Any]) -> Progress:
    spent = report["durationMs"]
    phases = {
        phase: sum(spent.get(part, 0) for part in parts) / 1000 for phase, parts in _PHASES.items()
    }
    started = datetime.fromisoformat(report["timestamp"]).timestamp()
    return Progress(report["batchId"], started, phases)


def start(
    session: SparkSession, program: Program, job: Job, checkpoint: Path, on_batch: OnBatch
) -> SparkApplication:
    """Start the query.

    Args:
        session: Spark.
        program: What to run; the workers build theirs from *job*.
        job: What the workers need.
        checkpoint: Directory of the query's checkpoint.
        on_batch: Called after each committed batch.
    """
    session.dataSource.register(JournalSource)
    rows = session.readStream.format("wallaroo").option("job", job_to_option(job)).load()
    for level in range(1, program.levels.count + 1):
        rows = rows.groupBy("slot").transformWithState(
            LevelProcessor(job, level), SCHEMA, outputMode="append", timeMode="none"
        )
    tokens = rows.selectExpr(f"decode(substring(blob, {len(TOKEN) + 1}), 'utf-8') as token")
    commit = _Commit(program, job.connect(), checkpoint, on_batch)
    query = (
        tokens.writeStream.outputMode("append")
        .queryName(program.application.name)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(commit)
        .start()
    )
    return SparkApplication(query, commit)


class _Commit:
    """Publishes a batch at the gateway, before Spark commits the batch.

    If Spark repeats a batch that the gateway has published, the gateway keeps what it has.
    """

    def __init__(
        self, program: Program, gateway: GatewayAPI, checkpoint: Path, on_batch: OnBatch
    ) -> None:
        self._gateway = gateway
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self.stopped: Stopped | None = None
        """Why no further batch can be published; Spark reports it only as text."""
        self._run: str | None = None
        self._timed = bool(program.timed)
        self._schedule = Schedule()
        if self._timed:
            gateway.wake(_AT_ONCE)

    def __call__(self, tokens: DataFrame, batch: int) -> None:
        found: list[str] = []
        written: dict[str, int] = {}
        for row in tokens.collect():
            token, *log = row.token.split(" ")
            found.append(token)
            if log:
                name, total = log
                written[name] = int(total)
        note_written(self._checkpoint, batch, written)
        try:
            tally = self._gateway.publish(
                self._run_name(),
                batch,
                sorted(set(found), key=found.index),
                planned_end(self._checkpoint, batch),
            )
        except Stopped as error:
            self.stopped = error
            raise
        if self._timed:
            self._wake(tally)
        self._on_batch(Batch(batch, tally or Tally()))

    def _wake(self, tally: Tally | None) -> None:
        """Ask for the next tick, after a batch with *tally*; None if that is not known."""
        if tally is None:
            self._gateway.wake(_AT_ONCE)
            return
        self._schedule.note(tally)
        self._gateway.wake(self._schedule.next_ns, has_outputs=self._schedule.has_outputs)

    def _run_name(self) -> str:
        """Name of the checkpoint's query, which batch numbers belong to."""
        if self._run is None:
            self._run = run_of(self._checkpoint)
        return self._run
