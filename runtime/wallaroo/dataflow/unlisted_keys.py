"""Detects that most messages of a source are dropped because their keys are not listed."""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.model.application import Application, Stateful

_FEW = 20
"""Up to this number, dropped messages may be exceptions at the start of a stream."""
ADVICE = (
    "return listed keys from the partition function, list the missing ones, "
    'or pass other_keys="add" to accept new keys'
)


@dataclass(frozen=True)
class MostlyUnlisted:
    """Most messages of a source were dropped before a stateful step."""

    source: str
    step: str
    state: str
    listed: str
    """A sample of the listed keys."""
    dropped: int
    processed: int

    def __str__(self) -> str:
        return (
            f"source {self.source!r}: {self.dropped:,} of {self.dropped + self.processed:,} "
            f"messages for step {self.step!r} were dropped, because their keys are not among those "
            f"listed for state {self.state!r}: {self.listed}; {ADVICE}"
        )


class UnlistedWatch:
    """Counts messages by step, and reports each step at most once.

    Args:
        application: The application.
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
        """Count messages of *step*; returns a report the first time that most are dropped."""
        at = pipeline, step
        state = self._states.get(at)
        if state is None or state.keys is None or at in self._reported:
            return None
        before = self._counts.get(at, (0, 0))
        dropped, processed = self._counts[at] = before[0] + dropped, before[1] + processed
        if dropped < _FEW or dropped <= processed:
            return None
        self._reported.add(at)
        return MostlyUnlisted(pipeline, step, state.name, state.describe_keys(), dropped, processed)
