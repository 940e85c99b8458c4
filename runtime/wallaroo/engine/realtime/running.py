"""An application that runs in chunks on Spark's real-time mode."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from wallaroo.dataflow.program import Program
from wallaroo.engine.realtime.checkpoint import check_partitions
from wallaroo.engine.realtime.feed import NO_QUERY
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.metrics import EngineMetrics
from wallaroo.engine.realtime.placement import Placement, is_local
from wallaroo.engine.realtime.query import OnPublished, RealTimeQuery
from wallaroo.engine.realtime.reports import Reports
from wallaroo.engine.realtime.settings import slots_of
from wallaroo.engine.realtime.shared_files import fresh_directory
from wallaroo.engine.realtime.warm_up import warm_up
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark import shipping
from wallaroo.engine.spark.checkpoint.damage import diagnose, table_problem
from wallaroo.engine.spark.checkpoint.epochs import remove_leftovers
from wallaroo.engine.spark.checkpoint.schemas import note_schemas
from wallaroo.engine.spark.errors import Failure
from wallaroo.engine.spark.executors import Executors
from wallaroo.engine.spark.session import Launch
from wallaroo.engine.spark.slots import slots_for
from wallaroo.engine.spark.supervised_query import NotYet, SupervisedQuery
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import RuntimeFailure
from wallaroo.loading.loader import ApplicationRef
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.system.disk_space import shortage
from wallaroo.system.object_store import is_stored
from wallaroo.system.restarts import Restart
from wallaroo.wire.chunk_messages import News
from wallaroo.wire.look_ups import LookUp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.05
"""Pause between looks at a query that is started again."""
_END_S = 3.0
"""Time for an epoch to end before other code takes over: a function that hangs would delay it."""

_PROBE = "savable"
"""Object that is written to see whether the store takes objects."""

log = structlog.get_logger("wallaroo")


class RunningEngine:
    """An application that runs in chunks, resuming from its state.

    Args:
        settings: How to run it.
        program: The application, ready to run.
        layout: Its state.
        lease: Number of the driver's lease on the gateway.
        gateway: Returns the address of the gateway's socket for chunks, or raises `RuntimeFailure`.
        launched: Spark, as it starts.
        scratch: Directory for temporary files.
        on_published: Called with what was published.
        claim: Called before a query starts, which writes to the checkpoint.
        held: Whether the gateway is to hand out no chunk until `release`.

    Raises:
        WallarooError: It did not start.
    """

    def __init__(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        lease: int,
        gateway: Callable[[], str],
        launched: Launch,
        scratch: Path,
        on_published: OnPublished = lambda _news: None,
        claim: Callable[[SparkSession], None] = lambda _session: None,
        *,
        held: bool = False,
    ) -> None:
        check_partitions(layout)
        layout.checkpoint.mkdir(parents=True, exist_ok=True)
        remove_leftovers(layout.checkpoint)
        self._gateway, self._name, self._claim = gateway, layout.application, claim
        self._on_published = on_published
        self._reports = Reports(program.application)
        self.figures = EngineMetrics()
        """What it has done since it started."""
        self._partitions = layout.partitions
        self._checkpoint = layout.checkpoint
        self._has_noted = False
        """Whether the checksums of the schemas are in the checkpoint."""
        self._supervising = threading.RLock()
        self._last: RealTimeQuery | None = None
        self._holding = threading.Lock()
        self._held = held
        self.executors: Executors | None = None
        """The executors; None for local Spark."""
        self._placement: Placement | None = None
        self._warming: threading.Thread | None = None
        self._warmed: frozenset[str] = frozenset()
        """Executors that the last warm-up was for."""
        self._attempts = itertools.count(1)
        self.has_published = self.has_ended_epoch = False
        """Whether the present code has published something, and whether an epoch has ended."""
        self._lack = partial(_lack, layout.checkpoint, scratch)
        self._launched, self._spark = launched, launched.finish()
        with self._spark.starting():
            if not is_local(settings.master):
                self.executors = Executors(self._spark.session, settings.workers)
                self._placement = Placement(self.executors, slots_of(layout.partitions))
            found = settings.application.absolute()
            if not settings.everywhere:
                found = shipping.ship(self._spark.session, settings.application, scratch)
            self._job = Job(
                found,
                "",
                lease,
                0,
                layout.checkpoint,
                layout.partitions,
                layout.buckets,
                slots_for(layout.buckets),
                settings.call_limit_s,
                settings.entity_limit_bytes,
                settings.state_bytes,
                wiring=program.application.wiring,
                token=settings.token,
            )
            self._query = SupervisedQuery(
                self._start_query,
                self._ended,
                partial(
                    diagnose,
                    layout.checkpoint,
                    lambda file: table_problem(self._spark.session, file),
                ),
                self._lack,
            )

    def _start_query(self, worked: Callable[[], None]) -> RealTimeQuery:
        """Start the query; `worked` is called whenever it has published something.

        Raises:
            NotYet: The gateway, or executors, are not there.
        """

        def published(news: News) -> None:
            worked()
            self._note_work()
            self.has_published = self.has_published or code == self._job.application
            self._reports.published(news)
            self.figures.on_published(news)
            self._has_noted = self._has_noted or note_schemas(self._checkpoint)
            self._on_published(news)

        def epochs_ended(stood_s: Sequence[float]) -> None:
            self._note_work()
            self.has_ended_epoch = self.has_ended_epoch or code == self._job.application
            self.figures.on_epochs(stood_s)

        code = self._job.application
        if self._last is not None:
            self._last.stop()
        if self.executors is None and not self._spark.is_alive():
            remove_leftovers(self._checkpoint)
            self._spark = self._launched.again()
        if self._placement is not None:
            self._placement.take()
        try:
            address = self._gateway()
            self._claim(self._spark.session)
        except RuntimeFailure as error:
            raise NotYet(str(error)) from error
        files = fresh_directory(self._checkpoint) if self._placement is None else None
        attempt = next(self._attempts)
        job = dataclasses.replace(self._job, gateway=address, attempt=attempt, files=files)
        session, held = self._spark.session, self._held
        started = RealTimeQuery(
            session, job, self._name, published, epochs_ended, self._lack, held=held
        )
        with self._holding:
            self._last = started
            if self._held != held:  # meanwhile
                self._apply_hold(started)
        return started

    def _note_work(self) -> None:
        if self._placement is not None:
            self._placement.worked()

    def _ended(self) -> Failure | None:
        """How Spark's Java ended, which local Spark survives; None while it runs."""
        if (ended := self._spark.ended()) is None:
            return None
        self._spark.will_stop()
        return Failure(ended, final=self.executors is not None)

    def failure(self) -> str | None:
        """Supervise it; returns why it is not restarted, or None while it runs or will run."""
        with self._supervising:
            with contextlib.suppress(Exception):  # Spark may have ended, which is found below
                self._move_if_outdated()
            return self._query.failure()

    def restarts(self) -> Sequence[Restart]:
        """Its last restarts after failures, with the reasons; the oldest first."""
        return self._query.last_restarts()

    @property
    def lack(self) -> str | None:
        """What the query waits for; None if it runs, or restarts."""
        return self._query.lack

    def interruption(self) -> str | None:
        """Why it does not run at the moment, although it will again; None while it runs."""
        return self._query.interruption()

    def samples(self) -> list[Sample]:
        """What it has done since it started, as metrics."""
        requested, alive = self.workers()
        return [
            *self.figures.samples(),
            Sample(catalogue.WORKERS_WANTED, (), requested),
            Sample(catalogue.WORKERS_ALIVE, (), alive),
            Sample(catalogue.QUERY_RESTARTS, (), self._query.restarts),
        ]

    def workers(self) -> tuple[int, int]:
        """Workers that are requested, and workers that take tasks."""
        if self.executors is None:
            return self._partitions, self._partitions
        return self.executors.wanted, len(self.executors.running())

    def look_up(self, asked: Sequence[LookUp]) -> list[dict[str, Any]]:
        """The entities that are *asked* for, as of what is published; see `merged`.

        Raises:
            RuntimeFailure: The query does not run, or does not answer.
        """
        if self._last is None:
            raise RuntimeFailure(NO_QUERY)
        return self._last.look_up(asked)

    def finish_epoch(self, timeout_s: float | None = None) -> None:
        """Wait until Spark has the state as of all that is published.

        Args:
            timeout_s: How long at most.

        Raises:
            RuntimeFailure: The query has failed and is not started again, or it took too long.
        """
        give_up = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        while True:
            try:
                return self._query.finish_epoch(timeout_s)
            except RuntimeFailure:  # the query has failed: what is published is safe, not in Spark
                if timeout_s is not None and (timeout_s := give_up - time.monotonic()) <= 0:
                    raise
                if (reason := self.failure() or self._query.lack) is not None:
                    raise RuntimeFailure(reason) from None
                time.sleep(_LOOK_EVERY_S)

    def scale(self, workers: int) -> None:
        """Run on *workers* workers; `failure` moves the query when the executors are there."""
        if self.executors is not None:
            self.executors.want(workers)

    def reload(
        self, application: ApplicationRef, program: Program, between: Callable[[], None]
    ) -> None:
        """Go on with other code of the application, as if it had been started again.

        What does not end soon is cut off, and run again.

        Args:
            application: The application.
            program: The same, ready to run.
            between: Called while nothing runs. If it raises, the code is not taken, and `failure`
                starts the query again with the previous one.

        Raises:
            RuntimeFailure: It could not be started.
        """
        with self._supervising:
            if self._last is not None:
                self._last.hold()
                with contextlib.suppress(RuntimeFailure):
                    self._last.finish_epoch(_END_S)
            self._query.replace()
            between()
            self._reports = Reports(program.application)
            self.has_published = self.has_ended_epoch = False
            self._job = dataclasses.replace(
                self._job, application=application.absolute(), wiring=program.application.wiring
            )
            self._query.worked()
            if (reason := self._query.failure()) is not None:  # it starts the query
                raise RuntimeFailure(reason)

    def hold(self) -> None:
        """Let the gateway hand out no chunk until `release`; those under way end.

        A query that fails meanwhile is started again, and held.
        """
        self._set_held(True)

    def release(self) -> None:
        """Let the gateway hand out chunks again."""
        self._set_held(False)

    def end_query(self) -> None:
        """Stop the query for good, so that another one can begin with its checkpoint."""
        self._spark.will_stop()
        self._query.stop()

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it; what is not published will be processed again at the next start.

        Args:
            at_once: Whether to wait for nothing in progress: calls to a gateway that will not come
                back would be repeated until they time out.
        """
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
        if self._placement is None or self.executors is None or self._held:
            return
        if self._last is None or not self._placement.is_outdated() or not self._are_warm():
            return
        log.info("query moves", executors=self.executors.running(), wanted=self.executors.wanted)
        self._last.hold()
        with contextlib.suppress(RuntimeFailure):  # it has failed: its messages are run again
            self._last.finish_epoch()
        self._query.replace()
        self.executors.remove_surplus()

    def _are_warm(self) -> bool:
        """Whether executors that the query does not use yet are prepared for it; begins to.

        Messages would wait for that otherwise, for seconds.
        """
        assert self._placement is not None
        fresh = self._placement.fresh()
        if fresh - self._warmed and (self._warming is None or not self._warming.is_alive()):
            self._warmed = fresh
            args = (self._spark.session, self._partitions, self._checkpoint.parent)
            self._warming = threading.Thread(target=warm_up, args=args, name="warm-up", daemon=True)
            self._warming.start()
        return self._warming is None or not self._warming.is_alive()


def _lack(checkpoint: Path, scratch: Path) -> str | None:
    """Why the state cannot be saved now: a disk is full, or the store of *checkpoint* is away."""
    if not is_stored(checkpoint):
        return shortage(checkpoint, scratch)
    try:
        (checkpoint.parent / _PROBE).check_store()
    except RuntimeFailure as error:
        return str(error)
    return shortage(scratch)
