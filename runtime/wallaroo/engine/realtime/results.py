"""Results of one chunk after another, from the same router or worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from wallaroo.dataflow.results import TaskResults
from wallaroo.wire.records import Outputs, Tally
from wallaroo.wire.task_metrics import StepMetrics, TaskMetrics

_ZERO = StepMetrics()


class ChunkResults(TaskResults):
    """Takes the results of a chunk, and gives them away before the next one.

    Routers and workers keep the metrics of steps that they count in: so these are emptied in place.
    """

    def __init__(self) -> None:
        super().__init__(self._gather)
        self._taken: list[Outputs] = []
        self._gathered = Tally()

    def take(self) -> tuple[list[Outputs], Tally]:
        """Outputs and report since the last call."""
        self._flush()
        outputs, tally = self._taken, self._gathered
        tally.metrics = _taken(self.metrics)
        self._taken, self._gathered = [], Tally()
        return outputs, tally

    def _gather(self, outputs: Sequence[Outputs], tally: Tally) -> None:
        self._taken += outputs
        self._gathered.merge(tally)


def _taken(metrics: TaskMetrics) -> TaskMetrics:
    """What *metrics* have counted; they count from zero then."""
    taken = TaskMetrics(
        {name: replace(step) for name, step in metrics.steps.items() if step != _ZERO},
        metrics.arrivals,
        metrics.entities,
        metrics.windows,
        metrics.log_bytes,
        metrics.hot_keys,
        metrics.keyed,
        metrics.expired,
    )
    for step in metrics.steps.values():
        for field in fields(StepMetrics):
            setattr(step, field.name, getattr(_ZERO, field.name))
    metrics.arrivals, metrics.entities, metrics.windows = {}, {}, {}
    metrics.log_bytes, metrics.hot_keys = {}, {}
    metrics.keyed, metrics.expired = {}, {}
    return taken
