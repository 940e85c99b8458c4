"""What engines on Spark have in common while an application runs."""

from __future__ import annotations

from collections.abc import Sequence

from wallaroo.engine.base import RunningEngine
from wallaroo.engine.spark.supervised_query import SupervisedQuery
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.system.restarts import Restart


class RunningOnSpark(RunningEngine):
    """An application that a supervised query runs."""

    _query: SupervisedQuery

    def failure(self) -> str | None:
        """See `RunningEngine.failure`."""
        return self._query.failure()

    def waits(self) -> bool:
        """See `RunningEngine.waits`."""
        return self._query.waits()

    def restarts(self) -> Sequence[Restart]:
        """See `RunningEngine.restarts`."""
        return self._query.last_restarts()

    def interruption(self) -> str | None:
        """See `RunningEngine.interruption`."""
        return self._query.interruption()

    def samples(self) -> list[Sample]:
        """See `RunningEngine.samples`."""
        requested, alive = self.workers()
        return [
            *self.figures.samples(),
            *self._cost_samples(),
            Sample(catalogue.WORKERS_WANTED, (), requested),
            Sample(catalogue.WORKERS_ALIVE, (), alive),
            Sample(catalogue.QUERY_RESTARTS, (), self._query.restarts),
        ]

    def _cost_samples(self) -> list[Sample]:
        costs = self.costs()
        if costs is None:
            return []
        return [
            Sample(catalogue.BATCH_LIMIT, (), costs.limit_s),
            Sample(catalogue.BATCH_FIXED, (), costs.fixed_s),
        ]
