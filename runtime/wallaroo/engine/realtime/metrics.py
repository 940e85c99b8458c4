"""Metrics of the engine since its start: publications, the ends of epochs, and errors."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Histogram, Sample
from wallaroo.wire.chunk_messages import News, Publication
from wallaroo.wire.records import FailedMessage, Kind

_KEPT_PUBLICATIONS = 30
"""Number of recent publications to keep individually."""
_KEPT_ERRORS = 20
"""Number of recent errors to keep individually."""


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
    """Collects the metrics of the engine; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._published_at = self._epoch_at = time.monotonic()
        self._publications: deque[Publication] = deque(maxlen=_KEPT_PUBLICATIONS)
        self._errors: dict[Kind, KnownError] = {}
        self._sizes = Histogram(catalogue.PUBLICATION_MESSAGES)
        self._run_s = Histogram(catalogue.PUBLICATION_SECONDS, "run")
        self._commit_s = Histogram(catalogue.PUBLICATION_SECONDS, "commit")
        self._epochs = Histogram(catalogue.EPOCH_SECONDS)

    def on_published(self, news: News) -> None:
        """Record what was published."""
        with self._lock:
            self._published_at = time.monotonic()
            for publication in news.publications:
                self._publications.append(publication)
                self._sizes.observe(publication.messages)
                self._run_s.observe(publication.run_s)
                self._commit_s.observe(publication.commit_s)
            examples = {example.kind: example for example in news.tally.examples}
            for kind, count in news.tally.failures.items():
                self._note_error(kind, count, examples.get(kind))

    def on_epochs(self, stood_s: Sequence[float]) -> None:
        """Record that epochs have ended, and how long the stream stood each time."""
        with self._lock:
            self._epoch_at = time.monotonic()
            for seconds in stood_s:
                self._epochs.observe(seconds)

    def samples(self) -> list[Sample]:
        """Return the metrics as samples."""
        with self._lock:
            now = time.monotonic()
            return [
                self._sizes.sample(),
                self._run_s.sample(),
                self._commit_s.sample(),
                Sample(catalogue.PUBLICATION_AGE, (), now - self._published_at),
                self._epochs.sample(),
                Sample(catalogue.EPOCH_AGE, (), now - self._epoch_at),
            ]

    def publications(self) -> Sequence[Publication]:
        """Return recent publications, the oldest first."""
        with self._lock:
            return list(self._publications)

    def errors(self) -> Sequence[KnownError]:
        """Return recent errors of user code, one of each kind, the newest first."""
        with self._lock:
            return sorted(self._errors.values(), key=lambda error: -error.last)

    def _note_error(self, kind: Kind, count: int, example: FailedMessage | None) -> None:
        known, now = self._errors.pop(kind, None), time.time()
        if known is not None:
            latest = known.example if example is None else example
            self._errors[kind] = KnownError(latest, known.count + count, known.first, now)
        elif example is not None:
            self._errors[kind] = KnownError(example, count, now, now)
        while len(self._errors) > _KEPT_ERRORS:
            del self._errors[next(iter(self._errors))]
