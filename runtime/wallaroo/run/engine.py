"""Spark and the query of an application, for `wallaroo run` and `wallaroo driver`."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.dataflow.program import Program
from wallaroo.engine.base import PHASES, Batch, OnBatch, Progress, RunningApplication
from wallaroo.engine.batch_sizing import BatchCosts, BatchLimits, CostsFile
from wallaroo.engine.metrics import EngineFigures, TimedBatch
from wallaroo.engine.microbatch.job import Job, Readers
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.model.loader import ApplicationRef
from wallaroo.observability.tracing import BatchId, Span, traces_for
from wallaroo.run.reports import Reports
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.state.saved import SavedState
from wallaroo.run.supervisor import SupervisedEngine

if TYPE_CHECKING:
    from wallaroo.engine.spark.executors import Executors
    from wallaroo.engine.spark.session import Launch
    from wallaroo.observability.spans import Traces


@dataclass(frozen=True)
class EngineSettings:
    """How Spark runs an application."""

    application: ApplicationRef
    """The application and its arguments."""
    master: str
    """Spark master URL."""
    workers: int
    """Workers at the start."""
    batch: BatchLimits = field(default_factory=BatchLimits)
    """Bounds of a batch."""
    memory: str = "1g"
    """Heap of the driver's virtual machine."""
    everywhere: bool = False
    """Whether workers have the application at the driver's path, as in copies of one image."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark."""
    call_limit_s: float = 60.0
    """Seconds that a function of the application may take for one message; 0 for no limit."""


def launch(settings: EngineSettings, state: StateDirectory, scratch: Path) -> Launch:
    """Begin to start Spark for an `Engine`, which is made of the same *settings* and *state*.

    Raises:
        UsageError: There is no usable Java.
    """
    from wallaroo.engine.spark.session import Launch, SparkSettings

    return Launch(
        state.fixed.application,
        SparkSettings(
            settings.master,
            state.fixed.partitions,
            scratch / "spark",
            settings.memory,
            settings.spark,
        ),
        [str(directory)] if (directory := settings.application.directory) else [],
        Reports().spark_line,
    )


class Engine:
    """An application running on Spark.

    Args:
        settings: How to run it.
        program: The application, ready to run.
        state: Where its checkpoint is.
        connector: Connects to its gateway.
        launched: Spark, as `launch` has begun to start it.
        scratch: Directory for temporary files.
        on_batch: Called after each committed batch, besides what is logged.

    Raises:
        WallarooError: Spark did not start.
    """

    def __init__(
        self,
        settings: EngineSettings,
        program: Program,
        state: StateDirectory,
        connector: Connector,
        launched: Launch,
        scratch: Path,
        on_batch: Callable[[Batch], None] = lambda _batch: None,
    ) -> None:
        from wallaroo.engine.microbatch import query
        from wallaroo.engine.spark import shipping
        from wallaroo.engine.spark.executors import Executors, start_workers
        from wallaroo.engine.spark.slots import slots_for

        fixed, reference = state.fixed, settings.application
        reports = Reports(program.application)
        self.figures = EngineFigures()
        """What it has done since it started."""
        self._workers = settings.workers
        self._program, self._checkpoint = program, state.checkpoint
        self._looking_up = threading.Lock()
        self._spark = launched.finish()
        self._readers = Readers(str(scratch / "readers"))
        self._readers.set(settings.workers)
        self._costs = CostsFile(str(scratch / "costs"))
        self._held = False
        self.executors: Executors | None = None
        """The executors, where the master is one that starts and stops them."""

        def report(batch: Batch) -> None:
            reports.batch(batch)
            self.figures.on_batch(batch)
            on_batch(batch)

        self._traces = traces_for(program.application.name)

        def timed(progress: Progress) -> None:
            self.figures.on_progress(progress)
            if self._traces is not None:
                _tell(self._traces, state.checkpoint, self.figures.batches()[-1])

        def start(committed: OnBatch) -> RunningApplication:
            # a run of its own each time: what processes have in memory of a failed one is no use
            fresh = dataclasses.replace(job, run=uuid.uuid4().hex)
            return query.start(self._spark.session, program, fresh, state.checkpoint, committed)

        with self._spark.starting():
            if settings.master.startswith("local"):
                start_workers(self._spark.session)
            else:
                self.executors = Executors(self._spark.session, settings.workers)
            if settings.everywhere:
                found = reference.absolute()
            else:
                found = shipping.ship(self._spark.session, reference, scratch)
            job = Job(
                "",
                found,
                connector,
                fixed.buckets,
                slots_for(fixed.buckets),
                self._readers,
                program.repeated,
                settings.batch,
                call_limit_s=settings.call_limit_s,
                costs=self._costs,
            )
            self._query = SupervisedEngine(start, self._spark.ended, report, timed)

    def failure(self) -> str | None:
        """Look after the query; tells why it is not started any more, None while it is."""
        return self._query.failure()

    def samples(self) -> list[Sample]:
        """What it has done since it started, in figures."""
        wanted, alive = self.workers()
        return [
            *self.figures.samples(),
            *self._cost_samples(),
            Sample(catalogue.WORKERS_WANTED, (), wanted),
            Sample(catalogue.WORKERS_ALIVE, (), alive),
            Sample(catalogue.QUERY_RESTARTS, (), self._query.restarts),
        ]

    def costs(self) -> BatchCosts | None:
        """What a batch costs, as far as it is known; None before the first has ended."""
        return self._costs.read()

    def _cost_samples(self) -> list[Sample]:
        costs = self.costs()
        if costs is None:
            return []
        return [
            Sample(catalogue.BATCH_LIMIT, (), costs.limit_s),
            Sample(catalogue.BATCH_FIXED, (), costs.fixed_s),
        ]

    def workers(self) -> tuple[int, int]:
        """Workers that there should be, and that take tasks."""
        if self.executors is None:
            from wallaroo.engine.spark.executors import local_workers

            return self._workers, min(self._workers, local_workers(self._spark.session))
        return self.executors.wanted, len(self.executors.running())

    def look_up(self, key: str) -> dict[str, Any]:
        """See `Watched.look_up`; one at a time, for all of the state is read.

        Raises:
            RuntimeFailure: Spark could not read it.
        """
        with self._looking_up:
            saved = SavedState(self._spark.session, self._checkpoint, self._program)
            commit = saved.commit._asdict() if saved.commit else None
            return {"commit": commit, "entities": list(saved.of_key(key))}

    def waits(self) -> bool:
        """Whether it waits for messages, with no batch under way."""
        return self._query.waits()

    def finish_batch(self) -> None:
        """Wait until the batch under way, if there is one, is committed."""
        self._query.finish_batch()

    def scale(self, workers: int) -> None:
        """Let there be *workers* executors, and batches be read in as many ranges."""
        if self.executors is not None:
            self.executors.want(workers)
        if not self._held:
            self._readers.set(max(1, workers))

    def hold(self) -> None:
        """Let no batch begin any more."""
        self._held = True
        self._readers.set(0)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the query and Spark; what is not committed is done over at the next start.

        Args:
            at_once: Whether to wait for nothing that is under way: calls to a gateway that will
                not come back would be waited for until their patience ends.
        """
        self._spark.will_stop()
        if at_once or not self._spark.is_alive():
            self._spark.kill()
        else:
            self._query.stop()
            self._spark.stop()
        if self._traces is not None:
            self._traces.close()


def _tell(traces: Traces, checkpoint: Path, batch: TimedBatch) -> None:
    """Tell of *batch*, and of its phases, which follow one another."""
    progress = batch.progress
    at_ns = started_ns = int(progress.started * 1e9)
    phases = []
    for phase in PHASES:
        begun_ns, at_ns = at_ns, at_ns + int(progress.phases[phase] * 1e9)
        phases.append(Span(phase, begun_ns, at_ns))
    told = {"wallaroo.batch": progress.number, "wallaroo.messages": batch.messages}
    whole = Span("batch", started_ns, at_ns, told)
    run = (checkpoint / "metadata").read_text()
    traces.tell(whole, phases, batch=BatchId(run, progress.number))
