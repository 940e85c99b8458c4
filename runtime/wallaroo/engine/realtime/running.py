"""An application that runs in chunks on Spark's real-time mode."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog

from wallaroo.dataflow.program import Program
from wallaroo.engine.base import Batch, EngineSettings, OnBatch
from wallaroo.engine.batch_sizing import BatchCosts
from wallaroo.engine.gateway_api import GatewayAPI
from wallaroo.engine.realtime.metrics import RealTimeMetrics
from wallaroo.engine.realtime.placement import Placement, is_local
from wallaroo.engine.realtime.process import Job
from wallaroo.engine.realtime.query import RealTimeQuery
from wallaroo.engine.realtime.settings import OPERATORS, slots_of
from wallaroo.engine.realtime.shared_files import fresh_directory
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark import shipping
from wallaroo.engine.spark.checkpoint.damage import diagnose
from wallaroo.engine.spark.checkpoint.saved_state import CheckpointState
from wallaroo.engine.spark.checkpoint.schemas import note_schemas
from wallaroo.engine.spark.checkpoint.tables import table_problem
from wallaroo.engine.spark.executors import Executors
from wallaroo.engine.spark.running import RunningOnSpark
from wallaroo.engine.spark.session import Launch
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.spark.supervised_query import NotYet, SupervisedQuery
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import RuntimeFailure
from wallaroo.model.loader import ApplicationRef
from wallaroo.system.disk_space import shortage

_LOOK_EVERY_S = 0.05
"""Pause between looks at a query that is started again."""
_END_S = 3.0
"""Time for an epoch to end before other code takes over: a function that hangs would delay it."""

log = structlog.get_logger("wallaroo")


class RunningRealTime(RunningOnSpark):
    """An application that runs in chunks; see `Engine.start`."""

    def __init__(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        gateway: GatewayAPI,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch,
    ) -> None:
        self._reports = Reports(program.application)
        self.figures = figures = RealTimeMetrics()
        self._partitions = layout.partitions
        self._program, self._checkpoint = program, layout.checkpoint
        self._looking_up = threading.Lock()
        self._supervising = threading.RLock()
        self._last: RealTimeQuery | None = None
        self._holding = threading.Lock()
        self._held = False
        self._executors: Executors | None = None
        """The executors; None for local Spark."""
        self._placement: Placement | None = None
        attempts = itertools.count(1)
        self._spark = launched.finish()

        def report(batch: Batch) -> None:
            self._reports.batch(batch)
            self.figures.on_batch(batch)
            note_schemas(layout.checkpoint)
            on_batch(batch)

        def start(committed: OnBatch) -> RealTimeQuery:
            if self._last is not None:
                self._last.stop()
            if self._placement is not None:
                self._placement.take()
            try:
                address = gateway.chunks_address()
            except RuntimeFailure as error:
                raise NotYet(str(error)) from error
            job = self._job
            files = fresh_directory(job.checkpoint) if self._placement is None else None
            fresh = dataclasses.replace(job, gateway=address, attempt=next(attempts), files=files)
            name, held = layout.application, self._held
            started = RealTimeQuery(
                self._spark.session, fresh, name, committed, figures.on_epochs, held=held
            )
            with self._holding:
                self._last = started
                if self._held != held:  # meanwhile
                    self._apply_hold(started)
            return started

        with self._spark.starting():
            if not is_local(settings.master):
                self._executors = Executors(self._spark.session, settings.workers)
                self._placement = Placement(self._executors, slots_of(layout.partitions))
            found = settings.application.absolute()
            if not settings.everywhere:
                found = shipping.ship(self._spark.session, settings.application, scratch)
            self._job = Job(
                found,
                "",
                gateway.claim,
                0,
                layout.checkpoint,
                layout.partitions,
                layout.buckets,
                slots_for(layout.buckets),
                settings.call_limit_s,
                settings.entity_limit_bytes,
            )
            tables = partial(table_problem, self._spark.session)
            self._query = SupervisedQuery(
                start,
                self._spark.ended,
                report,
                diagnose=partial(diagnose, layout.checkpoint, tables),
                shortage=partial(shortage, layout.checkpoint, scratch),
            )

    def failure(self) -> str | None:
        """See `RunningEngine.failure`."""
        with self._supervising:
            with contextlib.suppress(Exception):  # Spark may have ended, which is found below
                self._move_if_outdated()
            return self._query.failure()

    def costs(self) -> BatchCosts | None:
        """See `RunningEngine.costs`."""
        return None

    def workers(self) -> tuple[int, int]:
        """See `RunningEngine.workers`."""
        if self._executors is None:
            return self._partitions, self._partitions
        return self._executors.wanted, len(self._executors.running())

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
                if (reason := self.failure() or self._query.lack) is not None:
                    raise RuntimeFailure(reason) from None
                time.sleep(_LOOK_EVERY_S)

    def scale(self, workers: int) -> None:
        """See `RunningEngine.scale`; `failure` moves the query when the executors are there."""
        if self._executors is not None:
            self._executors.want(workers)

    def remove_surplus(self) -> None:
        """See `RunningEngine.remove_surplus`; executors leave when the query does not use them."""

    def reload(
        self, application: ApplicationRef, program: Program, between: Callable[[], None]
    ) -> None:
        """See `RunningEngine.reload`; what does not end soon is cut off, and run again."""
        with self._supervising, self._looking_up:
            if self._last is not None:
                self._last.hold()
                with contextlib.suppress(RuntimeFailure):
                    self._last.finish_batch(_END_S)
            self._query.replace()
            between()
            self._program, self._reports = program, Reports(program.application)
            self._job = dataclasses.replace(self._job, application=application.absolute())
            self._query.reconsider()
            if (reason := self._query.failure()) is not None:  # it starts the query
                raise RuntimeFailure(reason)

    def hold(self) -> None:
        """See `RunningEngine.hold`."""
        self._set_held(True)

    def release(self) -> None:
        """See `RunningEngine.release`."""
        self._set_held(False)

    def stop(self, *, at_once: bool = False) -> None:
        """See `RunningEngine.stop`."""
        self._spark.will_stop()
        if at_once or not self._spark.is_alive():
            self._spark.kill()
        self._query.stop()
        if not at_once and self._spark.is_alive():
            self._spark.stop()

    def _set_held(self, held: bool) -> None:
        with self._holding:
            self._held = held
            if self._last is not None:
                self._apply_hold(self._last)

    def _apply_hold(self, query: RealTimeQuery) -> None:
        if self._held:
            query.hold()
        else:
            query.release()

    def _move_if_outdated(self) -> None:
        """Stop a query that is to use other executors, at the end of an epoch."""
        if self._placement is None or self._executors is None or self._held:
            return
        if self._last is None or not self._placement.is_outdated():
            return
        log.info("query moves", executors=self._executors.running(), wanted=self._executors.wanted)
        self._last.hold()
        with contextlib.suppress(RuntimeFailure):  # it has failed: its messages are run again
            self._last.finish_batch()
        self._query.replace()
        self._executors.remove_surplus()
