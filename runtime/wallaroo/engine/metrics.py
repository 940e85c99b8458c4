"""Metrics of an engine since its start: batches, their phases, and errors."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from wallaroo.engine.base import Batch, Progress, TimedBatch, Unit
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Histogram, Sample
from wallaroo.wire.records import FailedMessage

_KEPT_BATCHES = 30
"""Number of recent batches to keep individually."""
_KEPT_ERRORS = 20
"""Number of recent errors to keep individually."""
_UNTIMED = 100
"""Maximum number of batches whose phases are still unknown."""


@dataclass
class KnownError:
    """An error of user code with its number of occurrences."""

    example: FailedMessage
    """The last message on which it was raised."""
    count: int
    """Number of messages on which it was raised since the start of the engine."""
    first: float
    """When the first of them was reported, in seconds since the Unix epoch."""
    last: float
    """The same of the last one."""


class EngineMetrics:
    """Collects the metrics of an engine; thread-safe.

    Args:
        unit: What the engine commits at a time.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        """What the engine commits at a time."""
        self._lock = threading.Lock()
        self._batch_at = time.monotonic()
        self._messages: dict[int, int] = {}
        """Number of messages of batches whose phases are unknown."""
        self._batches: deque[TimedBatch] = deque(maxlen=_KEPT_BATCHES)
        self._errors: dict[tuple[str, str, str], KnownError] = {}
        self._sizes = Histogram(unit.messages)
        self._phases = {phase: Histogram(unit.seconds, phase) for phase in unit.phases}

    def on_batch(self, batch: Batch) -> None:
        """Record a committed batch."""
        with self._lock:
            self._batch_at = time.monotonic()
            for timed in batch.timed:
                self._sizes.observe(timed.messages)
                self._note_timed(timed)
            if not batch.timed:
                self._note_size(batch)
            examples = {example.kind: example for example in batch.tally.examples}
            for kind, count in batch.tally.failures.items():
                self._note_error(kind, count, examples.get(kind))

    def on_progress(self, progress: Progress) -> None:
        """Record the phases of a batch."""
        with self._lock:
            self._note_timed(TimedBatch(self._messages.pop(progress.number, 0), progress))

    def samples(self) -> list[Sample]:
        """Return the metrics as samples."""
        with self._lock:
            age_s = time.monotonic() - self._batch_at
            return [
                self._sizes.sample(),
                *(phase.sample() for phase in self._phases.values()),
                Sample(catalogue.CHECKPOINT_AGE, (), age_s),
            ]

    def batches(self) -> Sequence[TimedBatch]:
        """Return recent batches, the oldest first."""
        with self._lock:
            return list(self._batches)

    def errors(self) -> Sequence[KnownError]:
        """Return recent errors of user code, one of each kind, the newest first."""
        with self._lock:
            return sorted(self._errors.values(), key=lambda error: -error.last)

    def _note_size(self, batch: Batch) -> None:
        messages = sum(batch.tally.metrics.arrivals.values())
        self._sizes.observe(messages)
        self._messages[batch.number] = messages
        while len(self._messages) > _UNTIMED:
            del self._messages[next(iter(self._messages))]

    def _note_timed(self, batch: TimedBatch) -> None:
        self._batches.append(batch)
        for phase, seconds in batch.progress.phases.items():
            self._phases[phase].observe(seconds)

    def _note_error(
        self, kind: tuple[str, str, str], count: int, example: FailedMessage | None
    ) -> None:
        known, now = self._errors.pop(kind, None), time.time()
        if known is not None:
            latest = known.example if example is None else example
            self._errors[kind] = KnownError(latest, known.count + count, known.first, now)
        elif example is not None:
            self._errors[kind] = KnownError(example, count, now, now)
        while len(self._errors) > _KEPT_ERRORS:
            del self._errors[next(iter(self._errors))]
