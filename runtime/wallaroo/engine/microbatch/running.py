"""An application that runs in batches of Structured Streaming."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.dataflow.program import Program
from wallaroo.engine.base import Batch, EngineSettings, OnBatch, Progress, TimedBatch
from wallaroo.engine.batch_sizing import BatchCosts, CostsFile
from wallaroo.engine.gateway_api import Connect
from wallaroo.engine.metrics import EngineMetrics
from wallaroo.engine.microbatch.job import Job, Readers
from wallaroo.engine.microbatch.metrics import BATCH
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark import shipping
from wallaroo.engine.spark.checkpoint.damage import diagnose
from wallaroo.engine.spark.checkpoint.leftovers import remove_uncommitted_state
from wallaroo.engine.spark.checkpoint.partitions import unfinished_batch
from wallaroo.engine.spark.checkpoint.progress import run_of
from wallaroo.engine.spark.checkpoint.saved_state import CheckpointState
from wallaroo.engine.spark.checkpoint.schemas import note_schemas
from wallaroo.engine.spark.checkpoint.tables import table_problem
from wallaroo.engine.spark.executors import (
    Executors,
    local_workers,
    running_tasks,
    start_workers,
    unload_state,
)
from wallaroo.engine.spark.running import RunningOnSpark
from wallaroo.engine.spark.session import Launch
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.spark.supervised_query import Query, SupervisedQuery
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import RuntimeFailure
from wallaroo.model.loader import ApplicationRef
from wallaroo.observability.tracing import BatchId, Span, traces_for
from wallaroo.system.disk_space import shortage

if TYPE_CHECKING:
    from wallaroo.observability.spans import Traces


class RunningMicroBatch(RunningOnSpark):
    """An application that runs in batches of Structured Streaming; see `Engine.start`."""

    def __init__(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        connect: Connect,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch,
    ) -> None:
        from wallaroo.engine.microbatch import query  # loads PySpark, while Java starts

        reference = settings.application
        self._reports = Reports(program.application)
        self.figures = EngineMetrics(BATCH)
        self._workers = settings.workers
        self._program, self._checkpoint = program, layout.checkpoint
        self._looking_up = threading.Lock()
        self._spark = launched.finish()
        self._readers = Readers(str(scratch / "readers"))
        self._ranges = settings.workers
        """Ranges that a batch is read in while batches run."""
        self._readers.set(self._ranges)
        self._costs = CostsFile(str(scratch / "costs"))
        self._holding = threading.Lock()
        self._held = self._reloads = False
        self._executors: Executors | None = None
        """The executors, if the master starts and stops them."""

        def report(batch: Batch) -> None:
            self._reports.batch(batch)
            self.figures.on_batch(batch)
            note_schemas(layout.checkpoint)
            on_batch(batch)

        self._traces = traces_for(program.application.name)
        restarts = itertools.count()

        def timed(progress: Progress) -> None:
            self.figures.on_progress(progress)
            if self._traces is not None:
                _report(self._traces, layout.checkpoint, self.figures.batches()[-1])

        def start(committed: OnBatch) -> Query:
            # a new run each time: what processes have in memory of a failed one is useless
            suspect = unfinished_batch(layout.checkpoint) if next(restarts) else -1
            job = self._job
            fresh = dataclasses.replace(job, run=uuid.uuid4().hex, suspect=suspect)
            if self._executors is None:
                unload_state(self._spark.session)
            remove_uncommitted_state(layout.checkpoint)
            return query.start(
                self._spark.session, self._program, fresh, layout.checkpoint, committed
            )

        with self._spark.starting():
            if settings.master.startswith("local"):
                start_workers(self._spark.session)
            else:
                self._executors = Executors(self._spark.session, settings.workers)
            if settings.everywhere:
                found = reference.absolute()
            else:
                found = shipping.ship(self._spark.session, reference, scratch)
            self._job = Job(
                "",
                found,
                connect,
                layout.buckets,
                slots_for(layout.buckets),
                self._readers,
                layout.checkpoint,
                settings.batch,
                call_limit_s=settings.call_limit_s,
                entity_limit_bytes=settings.entity_limit_bytes,
                costs=self._costs,
            )
            self._query = SupervisedQuery(
                start,
                self._spark.ended,
                report,
                timed,
                partial(diagnose, layout.checkpoint, partial(table_problem, self._spark.session)),
                partial(shortage, layout.checkpoint, scratch),
                lambda: running_tasks(self._spark.session),
            )

    def costs(self) -> BatchCosts | None:
        """See `RunningEngine.costs`."""
        return self._costs.read()

    def workers(self) -> tuple[int, int]:
        """See `RunningEngine.workers`."""
        if self._executors is None:
            return self._workers, min(self._workers, local_workers(self._spark.session))
        return self._executors.wanted, len(self._executors.running())

    @contextmanager
    def saved_state(self) -> Iterator[CheckpointState]:
        """See `RunningEngine.saved_state`."""
        with self._looking_up:  # all of the state is read
            yield CheckpointState(self._spark.session, self._checkpoint, self._program)

    def finish_batch(self) -> None:
        """See `RunningEngine.finish_batch`."""
        self._query.finish_batch()

    def scale(self, workers: int) -> None:
        """See `RunningEngine.scale`."""
        if self._executors is not None:
            self._executors.want(workers)
        self._ranges = max(1, workers)
        self._set_held()

    def remove_surplus(self) -> None:
        """See `RunningEngine.remove_surplus`."""
        if self._executors is not None:
            self._executors.remove_surplus()

    def reload(
        self, application: ApplicationRef, program: Program, between: Callable[[], None]
    ) -> None:
        """See `RunningEngine.reload`."""
        with self._looking_up:
            self._set_held(reloads=True)
            with contextlib.suppress(Exception):  # it has failed: its batch is run again
                self._query.finish_batch()
            self._query.replace()
            between()
            self._program, self._reports = program, Reports(program.application)
            self._job = dataclasses.replace(self._job, application=application.absolute())
            self._set_held(reloads=False)
            self._query.reconsider()
            if (reason := self._query.failure()) is not None:  # it starts the query
                raise RuntimeFailure(reason)

    def hold(self) -> None:
        """See `RunningEngine.hold`."""
        self._set_held(held=True)

    def release(self) -> None:
        """See `RunningEngine.release`."""
        self._set_held(held=False)

    def _set_held(self, *, held: bool | None = None, reloads: bool | None = None) -> None:
        """Note why batches are held, and hold them if there is a reason."""
        with self._holding:
            self._held = self._held if held is None else held
            self._reloads = self._reloads if reloads is None else reloads
            self._readers.set(0 if self._held or self._reloads else self._ranges)

    def stop(self, *, at_once: bool = False) -> None:
        """See `RunningEngine.stop`."""
        self._spark.will_stop()
        if at_once or not self._spark.is_alive():
            self._spark.kill()
        else:
            self._query.stop()
            self._spark.stop()
        if self._traces is not None:
            self._traces.close()


def _report(traces: Traces, checkpoint: Path, batch: TimedBatch) -> None:
    """Report *batch* and its phases, which follow one another."""
    progress = batch.progress
    at_ns = started_ns = int(progress.started * 1e9)
    phases = []
    for phase, seconds in progress.phases.items():
        begun_ns, at_ns = at_ns, at_ns + int(seconds * 1e9)
        phases.append(Span(phase, begun_ns, at_ns))
    attributes = {"wallaroo.batch": progress.number, "wallaroo.messages": batch.messages}
    whole = Span("batch", started_ns, at_ns, attributes)
    traces.export(whole, phases, batch=BatchId(run_of(checkpoint), progress.number))
