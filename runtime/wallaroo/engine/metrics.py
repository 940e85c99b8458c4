"""What an engine has done since it started: batches, their phases, what went wrong in them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from wallaroo.dataflow.records import FailedMessage
from wallaroo.engine.base import PHASES, Batch, Progress
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Histogram, Sample

_KEPT_BATCHES = 30
"""Batches that are told one by one."""
_KEPT_ERRORS = 20
"""Errors that are told one by one."""
_UNTIMED = 100
"""Batches whose phases are waited for at most."""


@dataclass(frozen=True)
class TimedBatch:
    """A committed batch, its messages, and how long it took."""

    messages: int
    """Messages that it took from the journal."""
    progress: Progress


@dataclass
class KnownError:
    """An error of user code, and how often it came."""

    example: FailedMessage
    """The last message on which it was raised."""
    count: int
    """Times that it was reported since the engine started: the first few of each task."""
    at: float
    """Wall clock when it came last, in seconds since the epoch."""


class EngineMetrics:
    """Keeps what has happened; may be asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch_at = time.monotonic()
        self._messages: dict[int, int] = {}
        """Messages of batches whose phases are not known yet."""
        self._batches: deque[TimedBatch] = deque(maxlen=_KEPT_BATCHES)
        self._errors: dict[tuple[str, str, str], KnownError] = {}
        self._sizes = Histogram(catalogue.BATCH_MESSAGES)
        self._phases = {phase: Histogram(catalogue.BATCH_SECONDS, phase) for phase in PHASES}

    def on_batch(self, batch: Batch) -> None:
        """Note a committed batch."""
        messages = sum(batch.tally.metrics.arrivals.values())
        with self._lock:
            self._batch_at = time.monotonic()
            self._sizes.observe(messages)
            self._messages[batch.number] = messages
            while len(self._messages) > _UNTIMED:
                del self._messages[next(iter(self._messages))]
            for example in batch.tally.examples:
                self._note_error(example)

    def on_progress(self, progress: Progress) -> None:
        """Note how a batch went."""
        with self._lock:
            messages = self._messages.pop(progress.number, 0)
            self._batches.append(TimedBatch(messages, progress))
            for phase, seconds in progress.phases.items():
                self._phases[phase].observe(seconds)

    def samples(self) -> list[Sample]:
        """What has happened, in figures."""
        with self._lock:
            age_s = time.monotonic() - self._batch_at
            return [
                self._sizes.sample(),
                *(phase.sample() for phase in self._phases.values()),
                Sample(catalogue.CHECKPOINT_AGE, (), age_s),
            ]

    def batches(self) -> Sequence[TimedBatch]:
        """The last batches, the oldest first."""
        with self._lock:
            return list(self._batches)

    def errors(self) -> Sequence[KnownError]:
        """The last errors of user code, each kind once, the newest first."""
        with self._lock:
            return sorted(self._errors.values(), key=lambda known: -known.at)

    def _note_error(self, example: FailedMessage) -> None:
        kind = (example.pipeline, example.step, example.place)
        known = self._errors.pop(kind, None)
        count = 1 if known is None else known.count + 1
        self._errors[kind] = KnownError(example, count, time.time())
        while len(self._errors) > _KEPT_ERRORS:
            del self._errors[next(iter(self._errors))]
