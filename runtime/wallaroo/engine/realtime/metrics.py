"""Metrics of the real-time engine: publications, and the ends of epochs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from wallaroo.engine.base import Progress, TimedBatch, Unit
from wallaroo.engine.metrics import EngineMetrics
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Histogram, Sample
from wallaroo.wire.chunk_messages import Publication

PUBLICATION = Unit(
    "publication",
    {"run": "processing its chunks", "commit": "committing"},
    catalogue.PUBLICATION_MESSAGES,
    catalogue.PUBLICATION_SECONDS,
)


def timed(publication: Publication) -> TimedBatch:
    """A publication as metrics have it; its number is that of its last chunk."""
    phases = {"run": publication.run_s, "commit": publication.commit_s}
    return TimedBatch(publication.messages, Progress(publication.last, publication.started, phases))


class RealTimeMetrics(EngineMetrics):
    """Collects the metrics of the real-time engine; thread-safe."""

    def __init__(self) -> None:
        super().__init__(PUBLICATION)
        self._epochs = Histogram(catalogue.EPOCH_SECONDS)
        self._epoch_at = time.monotonic()
        self._epochs_lock = threading.Lock()

    def on_epochs(self, stood_s: Sequence[float]) -> None:
        """Record that epochs have ended, and how long the stream stood each time."""
        with self._epochs_lock:
            self._epoch_at = time.monotonic()
            for seconds in stood_s:
                self._epochs.observe(seconds)

    def samples(self) -> list[Sample]:
        """Return the metrics as samples."""
        with self._epochs_lock:
            age = Sample(catalogue.EPOCH_AGE, (), time.monotonic() - self._epoch_at)
            return [*super().samples(), self._epochs.sample(), age]
