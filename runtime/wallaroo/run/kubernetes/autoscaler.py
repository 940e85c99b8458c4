"""Lets the number of workers follow the load, or reports what it would be."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import RuntimeFailure
from wallaroo.metrics import catalogue
from wallaroo.metrics.catalogue import Metric
from wallaroo.metrics.samples import Distribution, Sample
from wallaroo.run.kubernetes.scaling_rule import Decision, Reading, ScalingRule, ScalingSettings
from wallaroo.run.kubernetes.worker_count import WorkerCount
from wallaroo.wire.chunk_messages import News

log = structlog.get_logger("wallaroo")


class Autoscaler:
    """Reads the load, and writes the number of workers that it needs.

    Args:
        gateway: Returns the gateway's metrics, or raises `RuntimeFailure`.
        engine: The engine.
        is_paused: Whether the run is paused.
        count: Has the bounds, and takes the number.
        cores: Cores that a worker requests.
        clock: Seconds, for tests.
    """

    EVERY_S = 5.0
    """Seconds between two readings."""

    def __init__(
        self,
        gateway: Callable[[], Sequence[Sample]],
        engine: RunningEngine,
        is_paused: Callable[[], bool],
        count: WorkerCount,
        cores: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway, self._engine, self._is_paused = gateway, engine, is_paused
        self._count, self._cores, self._clock = count, cores, clock
        self._lock = threading.Lock()
        self._used_s: dict[str, float] = {}
        """Processor time of workers, as they last reported it."""
        self._busy_s: dict[int, float] = {}
        """That of processes."""
        self._scaling: ScalingSettings | None = None
        self._rule: ScalingRule | None = None
        """The rule for `_scaling`; None if the number is fixed."""
        self._decision: Decision | None = None
        self._reported: int | None = None
        """The number that was last reported, if nobody carries it out."""
        self._problem: str | None = None

    def on_published(self, news: News) -> None:
        """Note the processor time that came with *news*."""
        with self._lock:
            for (worker, role), (all_s, own_s) in news.tally.metrics.processors.items():
                self._used_s[worker] = max(all_s, self._used_s.get(worker, 0.0))
                self._busy_s[role] = own_s

    def look(self) -> None:
        """Read the load, and act on it."""
        scaling = self._count.scaling
        if scaling != self._scaling:
            self._scaling, self._decision, self._reported = scaling, None, None
            self._rule = (
                None if scaling is None else ScalingRule(replace(scaling, cores=self._cores))
            )
        if scaling is None or self._rule is None:
            return
        if self._is_paused() or self._engine.interruption() is not None:
            self._forget("the query does not run")
            return
        try:
            samples = self._gateway()
        except RuntimeFailure:
            self._forget("the gateway does not respond")
            return
        self._decision = self._rule.decide(self._reading(samples))
        self._act(scaling, self._decision)

    def status(self) -> dict[str, Any] | None:
        """What was decided last, as JSON; None if the number is fixed."""
        scaling, decision = self._scaling, self._decision
        if scaling is None:
            return None
        load = None if decision is None else decision.load
        return {
            "min": scaling.minimum,
            "max": scaling.maximum,
            "mode": "report" if scaling.reports_only else "scale",
            "needed": None if decision is None else decision.needed,
            "reason": None if decision is None else decision.reason,
            "load": None if load is None else load._asdict(),
            "problem": self._problem,
        }

    def samples(self) -> list[Sample]:
        """The same as metrics."""
        decision = self._decision
        if self._scaling is None or decision is None or decision.load is None:
            return []
        assert decision.needed is not None
        return [
            Sample(catalogue.WORKERS_NEEDED, (), decision.needed),
            Sample(catalogue.WORKERS_USED_CORES, (), decision.load.used_cores),
            Sample(catalogue.WORKERS_NEEDED_CORES, (), decision.load.needed_cores),
        ]

    def _forget(self, reason: str) -> None:
        """Start measuring again, because of *reason*."""
        assert self._rule is not None
        self._rule.reset()
        with self._lock:  # executors may be replaced
            self._used_s, self._busy_s = {}, {}
        wanted, _ = self._engine.workers()
        self._decision = Decision(wanted, reason)

    def _reading(self, samples: Sequence[Sample]) -> Reading:
        totals: dict[Metric, float] = defaultdict(float)
        for metric, _, value in samples:
            if not isinstance(value, Distribution):
                totals[metric] += value
        in_journal = totals[catalogue.BACKLOG_MESSAGES]
        workers, running = self._engine.workers()
        with self._lock:
            return Reading(
                self._clock(),
                totals[catalogue.SOURCE_MESSAGES] - in_journal,
                in_journal + totals[catalogue.KAFKA_LAG],
                workers,
                running,
                dict(self._used_s),
                dict(self._busy_s),
            )

    def _act(self, scaling: ScalingSettings, decision: Decision) -> None:
        """Log *decision*, and carry it out, if it changes anything."""
        workers, _ = self._engine.workers()
        if decision.workers == workers:
            return
        if scaling.reports_only:
            if decision.workers != self._reported:
                self._reported = decision.workers
                log.info(
                    "workers would change",
                    workers=workers,
                    wanted=decision.workers,
                    reason=decision.reason,
                )
            return
        try:
            self._count.write(decision.workers)
            self._problem = None
        except RuntimeFailure as error:
            self._problem = str(error)
            log.warning("workers are not changed", wanted=decision.workers, reason=str(error))
            return
        log.info("workers change", workers=workers, wanted=decision.workers, reason=decision.reason)
