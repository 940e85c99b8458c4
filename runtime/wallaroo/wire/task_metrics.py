"""Metrics of a task, which the gateway aggregates when the chunk is published.

Metrics travel with the task's report and count when the chunk is published: exactly once, even if
processes are killed or chunks processed again. All of them are recorded in bulk, per chunk or per
run of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

_MAX_HOT_KEYS = 20
"""Maximum number of keys that a task reports."""
_ARRIVAL_STEPS = 64
"""Maximum number of arrival times that are reported for a block of messages."""
_MILLISECOND_NS = 1_000_000


class WindowFigures(NamedTuple):
    """Figures of the windows of one state in one bucket."""

    open: int
    """Number of open windows with messages."""
    watermark_ns: int | None
    """The latest watermark of a key since the bucket was opened; None if there is none."""


@dataclass(slots=True)
class StepMetrics:
    """Metrics of one step of a pipeline."""

    entered: int = 0
    """Number of input messages."""
    left: int = 0
    """Number of output messages."""
    set_aside: int = 0
    """Number of messages on which it raised."""
    timed: int = 0
    """Number of timed messages: all of them, or a sample."""
    seconds: float = 0.0
    """Total time of the timed messages, in seconds."""
    unlisted: int = 0
    """Number of messages that did not reach it because their keys are not listed."""

    def note(self, entered: int, left: int, seconds: float) -> None:
        """Count *entered* input messages, all of them timed, and *left* outputs."""
        self.add(entered, left)
        self.timed += entered
        self.seconds += seconds

    def add(self, entered: int, left: int) -> None:
        """Count *entered* input messages and *left* outputs."""
        self.entered += entered
        self.left += left

    def time(self, began: float) -> None:
        """Add the time of one message, which began at *began* according to `perf_counter`."""
        self.timed += 1
        self.seconds += perf_counter() - began

    def merge(self, other: StepMetrics) -> None:
        """Add the contents of *other*."""
        self.entered += other.entered
        self.left += other.left
        self.set_aside += other.set_aside
        self.timed += other.timed
        self.seconds += other.seconds
        self.unlisted += other.unlisted

    def taken(self) -> StepMetrics | None:
        """What it has counted since the last call; None for nothing.

        Example:
            >>> metrics = StepMetrics()
            >>> metrics.note(3, 2, 0.5)
            >>> metrics.taken()
            StepMetrics(entered=3, left=2, set_aside=0, timed=3, seconds=0.5, unlisted=0)
            >>> metrics.taken() is None, metrics.seconds
            (True, 0.0)
        """
        if not (self.entered or self.left or self.set_aside or self.timed or self.unlisted):
            return None
        counts = (self.entered, self.left, self.set_aside, self.timed)
        taken = StepMetrics(*counts, self.seconds, self.unlisted)
        self.entered = self.left = self.set_aside = self.timed = self.unlisted = 0
        self.seconds = 0.0
        return taken

    def to_json(self) -> list[float]:
        """Convert to plain JSON values."""
        counts = (self.entered, self.left, self.set_aside, self.timed)
        return [*counts, self.seconds, self.unlisted]


class StoredFigures(NamedTuple):
    """Figures of the entities of a state that are in the local store of a process."""

    entities: int
    bytes: int
    """Bytes of its files."""
    reads: int
    """Entities that were read from it meanwhile."""


@dataclass
class TaskMetrics:
    """Metrics of a task, or of all tasks of a chunk.

    Example:
        >>> metrics = TaskMetrics()
        >>> metrics.step("Votes", "count").note(3, 2, 0.5)
        >>> metrics.merge(TaskMetrics.from_json(metrics.to_json()))
        >>> metrics.steps["Votes", "count"].entered, metrics.steps["Votes", "count"].seconds
        (6, 1.0)
    """

    steps: dict[tuple[str, str], StepMetrics] = field(default_factory=dict)
    """By pipeline and name of the step."""
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)
    """Messages by source and time of arrival, in nanoseconds since the Unix epoch."""
    entities: dict[tuple[str, int], int] = field(default_factory=dict)
    """Number of entities by state and bucket, of the buckets that the task processed."""
    windows: dict[tuple[str, int], WindowFigures] = field(default_factory=dict)
    """Figures of windows by state and bucket, where they have changed."""
    log_bytes: dict[tuple[str, int], int] = field(default_factory=dict)
    """Size of the state's log by the states that share it and by bucket, in bytes."""
    stored: dict[tuple[str, int], StoredFigures] = field(default_factory=dict)
    """Figures of the local store by state and bucket, where they have changed."""
    hot_keys: dict[tuple[str, str], int] = field(default_factory=dict)
    """Messages by state and printable key, of the keys with the most messages."""
    keyed: dict[str, int] = field(default_factory=dict)
    """Messages of all keys, by state."""
    expired: dict[str, int] = field(default_factory=dict)
    """Number of entities that expired, by state."""
    processors: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    """By worker and process (a partition, or the first stage): seconds of processor time that the
    worker and the process have used so far. Reported from time to time, by executors alone."""

    def taken(self) -> TaskMetrics:
        """What it has counted since the last call; `step` returns the same objects as before."""
        steps = {name: counts for name, one in self.steps.items() if (counts := one.taken())}
        taken = TaskMetrics(
            steps,
            self.arrivals,
            self.entities,
            self.windows,
            self.log_bytes,
            self.stored,
            self.hot_keys,
            self.keyed,
            self.expired,
            self.processors,
        )
        self.arrivals, self.entities, self.windows, self.log_bytes = {}, {}, {}, {}
        self.stored = {}
        self.hot_keys, self.keyed, self.expired, self.processors = {}, {}, {}, {}
        return taken

    def add_expired(self, state: str) -> None:
        """Count an entity of *state* that expired."""
        self.expired[state] = self.expired.get(state, 0) + 1

    def step(self, pipeline: str, name: str) -> StepMetrics:
        """Return the metrics of a step, which the caller may update."""
        metrics = self.steps.get((pipeline, name))
        if metrics is None:
            metrics = self.steps[pipeline, name] = StepMetrics()
        return metrics

    def add_arrivals(self, arrived: Iterable[tuple[int, int, int]]) -> None:
        """Count arrivals: (source, nanoseconds, messages), in order.

        Times are rounded to a sixty-fourth of the interval between the first and the last.
        """
        arrived = list(arrived)
        if not arrived:
            return
        if len(arrived) == 1:
            ((source, at, messages),) = arrived
            self.arrivals[source, at] = self.arrivals.get((source, at), 0) + messages
            return
        first, last = arrived[0][1], arrived[-1][1]
        step = max(_MILLISECOND_NS, (last - first) // _ARRIVAL_STEPS)
        arrivals = self.arrivals
        for source, at, messages in arrived:
            entry = (source, at - (at - first) % step)
            arrivals[entry] = arrivals.get(entry, 0) + messages

    def add_hot_keys(self, state: str, counts: Mapping[Any, int], messages: int) -> None:
        """Count *messages* of all keys, and by key those of the keys with the most messages."""
        if messages:
            self.keyed[state] = self.keyed.get(state, 0) + messages
        for key, count in _most(counts):
            entry = (state, _printable(key))
            self.hot_keys[entry] = self.hot_keys.get(entry, 0) + count

    def merge(self, other: TaskMetrics) -> None:
        """Add the contents of *other*."""
        for name, metrics in other.steps.items():
            own = self.steps.get(name)
            if own is None:
                own = self.steps[name] = StepMetrics()
            own.merge(metrics)
        for arrival, messages in other.arrivals.items():
            self.arrivals[arrival] = self.arrivals.get(arrival, 0) + messages
        if not other.has_others:
            return
        self.entities |= other.entities
        self.windows |= other.windows
        self.log_bytes |= other.log_bytes
        for slot, stored in other.stored.items():
            before = self.stored.get(slot)
            reads = stored.reads + (before.reads if before else 0)
            self.stored[slot] = stored._replace(reads=reads)
        self.processors |= other.processors
        for entry, count in other.hot_keys.items():
            self.hot_keys[entry] = self.hot_keys.get(entry, 0) + count
        self.hot_keys = dict(_most(self.hot_keys))
        for state, count in other.keyed.items():
            self.keyed[state] = self.keyed.get(state, 0) + count
        for state, count in other.expired.items():
            self.expired[state] = self.expired.get(state, 0) + count

    def __bool__(self) -> bool:
        return bool(self.steps or self.arrivals or self.has_others)

    @property
    def has_others(self) -> bool:
        """Whether it has anything but metrics of steps and arrivals."""
        return bool(
            self.entities
            or self.windows
            or self.log_bytes
            or self.stored
            or self.hot_keys
            or self.keyed
            or self.expired
            or self.processors
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to plain JSON values; what is empty is left out."""
        figures: dict[str, list[Any]] = {
            "steps": [[*step, *metrics.to_json()] for step, metrics in self.steps.items()],
            "arrivals": [[*arrival, count] for arrival, count in self.arrivals.items()],
            "entities": [[*slot, count] for slot, count in self.entities.items()],
            "windows": [[*slot, *figures] for slot, figures in self.windows.items()],
            "log_bytes": [[*slot, size] for slot, size in self.log_bytes.items()],
            "stored": [[*slot, *figures] for slot, figures in self.stored.items()],
            "hot_keys": [[*key, count] for key, count in self.hot_keys.items()],
            "keyed": list(self.keyed.items()),
            "expired": list(self.expired.items()),
            "processors": [[*of, *seconds] for of, seconds in self.processors.items()],
        }
        return {name: values for name, values in figures.items() if values}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TaskMetrics:
        """Convert the result of `to_json` back."""
        get = value.get
        return cls(
            {(pipeline, name): StepMetrics(*rest) for pipeline, name, *rest in get("steps", ())},
            {(source, at): count for source, at, count in get("arrivals", ())},
            {(state, slot): count for state, slot, count in get("entities", ())},
            {(state, slot): WindowFigures(*rest) for state, slot, *rest in get("windows", ())},
            {(states, slot): size for states, slot, size in get("log_bytes", ())},
            {(state, slot): StoredFigures(*rest) for state, slot, *rest in get("stored", ())},
            {(state, key): count for state, key, count in get("hot_keys", ())},
            dict(get("keyed", ())),
            dict(get("expired", ())),
            {
                (worker, role): (all_s, own_s)
                for worker, role, all_s, own_s in get("processors", ())
            },
        )


def _most(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    if len(counts) <= _MAX_HOT_KEYS:
        return list(counts.items())
    return sorted(counts.items(), key=lambda counted: -counted[1])[:_MAX_HOT_KEYS]


def _printable(key: Any) -> str:
    try:
        return repr(key)[:100]
    except Exception:  # raised by user code
        return f"<{type(key).__name__}>"
