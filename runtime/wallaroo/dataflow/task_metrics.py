"""What a task has counted and timed, to be added up at the gateway with the batch that it is of.

Figures travel with what a task reports, and count when the batch is published: once, whatever was
killed or done over on the way. All of them are taken in bulk, by chunk or by run of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

_MAX_HOT_KEYS = 20
"""Keys that a task tells of."""
_ARRIVAL_STEPS = 64
"""Moments of arrival that a block of messages is told by at most."""
_MILLISECOND_NS = 1_000_000


@dataclass(slots=True)
class StepMetrics:
    """What went through one step of a pipeline."""

    entered: int = 0
    """Messages that it was given."""
    left: int = 0
    """Messages, or outputs, that came out of it."""
    set_aside: int = 0
    """Messages on which it raised."""
    timed: int = 0
    """Messages that were timed: all of them, or a sample."""
    seconds: float = 0.0
    """Seconds that the timed ones took."""
    unlisted: int = 0
    """Messages that did not get to it, because their keys are not listed."""

    def note(self, entered: int, left: int, seconds: float) -> None:
        """Count *entered* messages, all of them timed, of which *left* came."""
        self.add(entered, left)
        self.timed += entered
        self.seconds += seconds

    def add(self, entered: int, left: int) -> None:
        """Count *entered* messages, of which *left* came."""
        self.entered += entered
        self.left += left

    def time(self, began: float) -> None:
        """Add the time of one message, which entered when `perf_counter` showed *began*."""
        self.timed += 1
        self.seconds += perf_counter() - began

    def merge(self, other: StepMetrics) -> None:
        """Add what *other* has."""
        self.entered += other.entered
        self.left += other.left
        self.set_aside += other.set_aside
        self.timed += other.timed
        self.seconds += other.seconds
        self.unlisted += other.unlisted

    def to_json(self) -> list[float]:
        """As plain JSON values."""
        counts = (self.entered, self.left, self.set_aside, self.timed)
        return [*counts, self.seconds, self.unlisted]


@dataclass
class TaskMetrics:
    """What a task, or all tasks of a batch, counted.

    Example:
        >>> figures = TaskMetrics()
        >>> figures.step("Votes", "count").note(3, 2, 0.5)
        >>> figures.merge(TaskMetrics.from_json(figures.to_json()))
        >>> figures.steps["Votes", "count"].entered, figures.steps["Votes", "count"].seconds
        (6, 1.0)
    """

    steps: dict[tuple[str, str], StepMetrics] = field(default_factory=dict)
    """By pipeline and name of the step."""
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)
    """Messages by source and time of arrival, in nanoseconds since the epoch."""
    entities: dict[tuple[str, int], int] = field(default_factory=dict)
    """State entities by state partition and slot, of the slots that the task had."""
    log_bytes: dict[tuple[str, int], int] = field(default_factory=dict)
    """Bytes of state's log by slot and the state partitions, one or several, that share it."""
    hot_keys: dict[tuple[str, str], int] = field(default_factory=dict)
    """Messages by state partition and printable key: the keys with the most."""

    def step(self, pipeline: str, name: str) -> StepMetrics:
        """The figures of a step; what is added to them counts here."""
        figures = self.steps.get((pipeline, name))
        if figures is None:
            figures = self.steps[pipeline, name] = StepMetrics()
        return figures

    def add_arrivals(self, arrived: Iterable[tuple[int, int, int]]) -> None:
        """Count what arrived together: (source, nanoseconds, messages), in order of arrival.

        Times are kept to a sixty-fourth of the time that lies between the first and the last.
        """
        arrived = list(arrived)
        if not arrived:
            return
        first, last = arrived[0][1], arrived[-1][1]
        step = max(_MILLISECOND_NS, (last - first) // _ARRIVAL_STEPS)
        arrivals = self.arrivals
        for source, at, messages in arrived:
            entry = (source, at - (at - first) % step)
            arrivals[entry] = arrivals.get(entry, 0) + messages

    def add_hot_keys(self, state: str, counts: Mapping[Any, int]) -> None:
        """Count messages by key, for the keys that have the most."""
        for key, count in _most(counts):
            entry = (state, _printable(key))
            self.hot_keys[entry] = self.hot_keys.get(entry, 0) + count

    def merge(self, other: TaskMetrics) -> None:
        """Add what *other* has."""
        for (pipeline, name), figures in other.steps.items():
            self.step(pipeline, name).merge(figures)
        for arrival, messages in other.arrivals.items():
            self.arrivals[arrival] = self.arrivals.get(arrival, 0) + messages
        self.entities |= other.entities
        self.log_bytes |= other.log_bytes
        for entry, count in other.hot_keys.items():
            self.hot_keys[entry] = self.hot_keys.get(entry, 0) + count
        self.hot_keys = dict(_most(self.hot_keys))

    def __bool__(self) -> bool:
        return bool(self.steps or self.arrivals or self.entities)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "steps": [[*step, *figures.to_json()] for step, figures in self.steps.items()],
            "arrivals": [[*arrival, count] for arrival, count in self.arrivals.items()],
            "entities": [[*slot, count] for slot, count in self.entities.items()],
            "log_bytes": [[*slot, size] for slot, size in self.log_bytes.items()],
            "hot_keys": [[*key, count] for key, count in self.hot_keys.items()],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TaskMetrics:
        """The figures that `to_json` wrote."""
        return cls(
            {(pipeline, name): StepMetrics(*rest) for pipeline, name, *rest in value["steps"]},
            {(source, at): count for source, at, count in value["arrivals"]},
            {(state, slot): count for state, slot, count in value["entities"]},
            {(states, slot): size for states, slot, size in value["log_bytes"]},
            {(state, key): count for state, key, count in value["hot_keys"]},
        )


def _most(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    if len(counts) <= _MAX_HOT_KEYS:
        return list(counts.items())
    return sorted(counts.items(), key=lambda counted: -counted[1])[:_MAX_HOT_KEYS]


def _printable(key: Any) -> str:
    try:
        return repr(key)[:100]
    except Exception:  # the user's own class
        return f"<{type(key).__name__}>"
