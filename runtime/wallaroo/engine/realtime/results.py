"""Results of one chunk after another, from the same router or worker."""

from __future__ import annotations

from collections.abc import Sequence

from wallaroo.dataflow.results import TaskResults
from wallaroo.wire.records import Outputs, Tally


class ChunkResults(TaskResults):
    """Takes the results of a chunk, and gives them away before the next one.

    Routers and workers keep the metrics of steps that they count in: so these are emptied in place.
    """

    def __init__(self) -> None:
        super().__init__(self._gather)
        self._taken: list[Outputs] = []
        self._gathered: Tally | None = None
        """The report of what was delivered of the chunk; None if nothing was."""

    def take(self) -> tuple[list[Outputs], Tally]:
        """Outputs and report since the last call."""
        self._flush()
        outputs, tally = self._taken, self._gathered
        assert tally is not None
        tally.metrics = self.metrics.taken()
        self._taken, self._gathered = [], None
        return outputs, tally

    def _gather(self, outputs: Sequence[Outputs], tally: Tally) -> None:
        self._taken += outputs
        if self._gathered is None:
            self._gathered = tally
        else:
            self._gathered.merge(tally)
