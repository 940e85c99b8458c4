"""Noticing that most messages of a source are dropped because their keys are not listed."""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.model.application import Application, Stateful

_FEW = 20
"""So many dropped messages may be the few wrong ones of a stream that has just begun."""
ADVICE = (
    "return listed keys from the partition function, list the missing ones, "
    'or give other_keys="add" to let new keys be added as they come'
)
"""What to do."""


@dataclass(frozen=True)
class MostlyUnlisted:
    """Most messages of a source were dropped before a step over state."""

    source: str
    step: str
    state: str
    listed: str
    """Some of the keys that are listed."""
    dropped: int
    processed: int

    def __str__(self) -> str:
        return (
            f"source {self.source!r}: {self.dropped:,} of {self.dropped + self.processed:,} "
            f"messages for step {self.step!r} were dropped, because state {self.state!r} lists "
            f"{self.listed} and their keys are not among them; {ADVICE}"
        )


class UnlistedWatch:
    """Counts messages by step, and reports a step once.

    Args:
        application: What is run.
    """

    def __init__(self, application: Application) -> None:
        self._states = {
            (pipeline.name, step.name): application.partitions[step.partition]
            for pipeline in application.pipelines
            for step in pipeline.trunk.walk()
            if isinstance(step, Stateful)
        }
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}
        self._reported: set[tuple[str, str]] = set()

    def note(self, pipeline: str, step: str, dropped: int, processed: int) -> MostlyUnlisted | None:
        """Count messages of *step*; returns what to report, if it is time to."""
        at = pipeline, step
        state = self._states.get(at)
        if state is None or state.keys is None or at in self._reported:
            return None
        before = self._counts.get(at, (0, 0))
        dropped, processed = self._counts[at] = before[0] + dropped, before[1] + processed
        if dropped < _FEW or dropped <= processed:
            return None
        self._reported.add(at)
        return MostlyUnlisted(pipeline, step, state.name, state.listed(), dropped, processed)
