"""An application that runs in chunks on Spark's real-time mode."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wallaroo.dataflow.program import Program
from wallaroo.engine.base import Batch, EngineSettings, OnBatch, StateLayout
from wallaroo.engine.batch_sizing import BatchCosts
from wallaroo.engine.realtime.metrics import RealTimeMetrics
from wallaroo.engine.realtime.process import Job
from wallaroo.engine.realtime.query import RealTimeQuery
from wallaroo.engine.realtime.refusals import refuse
from wallaroo.engine.realtime.settings import OPERATORS
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark.checkpoint.saved_state import CheckpointState
from wallaroo.engine.spark.running import RunningOnSpark
from wallaroo.engine.spark.session import Launch
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.spark.supervised_query import SupervisedQuery
from wallaroo.errors import RuntimeFailure

_LOOK_EVERY_S = 0.05
"""Pause between looks at a query that is started again."""


class RunningRealTime(RunningOnSpark):
    """An application that runs in chunks; see `Engine.start`."""

    def __init__(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        gateway: Path,
        claim: int,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch,
    ) -> None:
        reports = Reports(program.application)
        self.figures = figures = RealTimeMetrics()
        self._partitions = layout.partitions
        self._program, self._checkpoint = program, layout.checkpoint
        self._looking_up = threading.Lock()
        self._last: RealTimeQuery | None = None
        attempts = itertools.count(1)
        self._spark = launched.finish()

        def report(batch: Batch) -> None:
            reports.batch(batch)
            self.figures.on_batch(batch)
            on_batch(batch)

        job = Job(
            settings.application.absolute(),
            str(gateway),
            claim,
            0,
            layout.checkpoint,
            layout.partitions,
            layout.buckets,
            slots_for(layout.buckets),
            program.repeated,
            settings.call_limit_s,
        )

        def start(committed: OnBatch) -> RealTimeQuery:
            if self._last is not None:
                self._last.stop()
            fresh = dataclasses.replace(job, attempt=next(attempts))
            name = program.application.name
            self._last = RealTimeQuery(
                self._spark.session, fresh, name, scratch, committed, figures.on_epochs
            )
            return self._last

        with self._spark.starting():
            self._query = SupervisedQuery(start, self._spark.ended, report)

    def costs(self) -> BatchCosts | None:
        """See `RunningEngine.costs`."""
        return None

    def workers(self) -> tuple[int, int]:
        """See `RunningEngine.workers`."""
        return self._partitions, self._partitions

    @contextmanager
    def saved_state(self) -> Iterator[CheckpointState]:
        """See `RunningEngine.saved_state`."""
        with self._looking_up:
            self._query.finish_batch()
            yield CheckpointState(
                self._spark.session, self._checkpoint, self._program, operators=OPERATORS
            )

    def finish_batch(self) -> None:
        """See `RunningEngine.finish_batch`."""
        while True:
            try:
                return self._query.finish_batch()
            except RuntimeFailure:  # the query has failed: what is published is safe, not in Spark
                if (reason := self._query.failure()) is not None:
                    raise RuntimeFailure(reason) from None
                time.sleep(_LOOK_EVERY_S)

    def scale(self, workers: int) -> None:
        """See `RunningEngine.scale`."""
        refuse(f"another number of workers ({workers}) while it runs")

    def remove_surplus(self) -> None:
        """See `RunningEngine.remove_surplus`."""

    def hold(self) -> None:
        """See `RunningEngine.hold`."""
        refuse("being held up")

    def stop(self, *, at_once: bool = False) -> None:
        """See `RunningEngine.stop`."""
        self._spark.will_stop()
        if at_once or not self._spark.is_alive():
            self._spark.kill()
        self._query.stop()
        if not at_once and self._spark.is_alive():
            self._spark.stop()
