"""A query of Spark that is started again when it fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from wallaroo.engine.base import Batch, Failure, OnBatch, Progress
from wallaroo.engine.spark.errors import cause_of
from wallaroo.system.restarts import Restarts

log = structlog.get_logger("wallaroo")


class Query(Protocol):
    """A query that was started."""

    def failure(self) -> Failure | None:
        """Why it stopped by itself; None while it runs."""

    def progress(self) -> Sequence[Progress]:
        """How the batches went that have ended since this was asked last; some of many."""

    def waits(self) -> bool:
        """Whether it waits for messages, with no batch under way."""

    def finish_batch(self) -> None:
        """Wait until the batch under way, if there is one, is committed."""

    def stop(self) -> None:
        """Stop it; what is not committed is done over at the next start."""


class SupervisedQuery:
    """A query that is started again when it fails.

    Args:
        start: Starts the query.
        ended: Tells how what the engine runs on has ended; None while it is there.
        on_batch: Called after each committed batch.
        on_progress: Called, by `failure`, with how each batch went.
    """

    def __init__(
        self,
        start: Callable[[OnBatch], Query],
        ended: Callable[[], str | None],
        on_batch: OnBatch,
        on_progress: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        self._start = start
        self._ended = ended
        self._on_batch = on_batch
        self._on_progress = on_progress
        self._untold = False
        """Whether batches have ended whose progress has not been asked for."""
        self.restarts = 0
        """Times that it was started anew."""
        self._restarts = Restarts()
        self._again_at: float | None = None
        """When the query, which has failed, is started anew."""
        self._running = start(self._batch)

    def failure(self) -> str | None:
        """Look after it; tells why it is not started any more, None while it is."""
        try:
            if self._again_at is None:
                failure = self._running.failure()
                if self._untold:
                    self._tell_progress()
            elif time.monotonic() < self._again_at:
                return None
            else:
                failure = self._start_again()
        except Exception as error:  # whatever the engine's libraries raise when it is not there
            cause = cause_of(str(error))
            gone = f"the engine is gone ({cause}); start again with the same --state-dir"
            return self._ended() or gone
        if failure is None:
            return None
        if failure.final:
            return failure.reason
        pause = self._restarts.pause()
        if pause is None:
            return f"the query failed {self._restarts.failures} times in a row: {failure.reason}"
        log.warning("query restarts", reason=failure.reason, pause_s=pause)
        self._again_at = time.monotonic() + pause
        return None

    def _start_again(self) -> Failure | None:
        """Start the query anew; why that failed, if it did, and the engine is there."""
        self._again_at = None
        try:
            self._running = self._start(self._batch)
        except Exception as error:  # a process that Spark keeps for starts may have been killed
            if self._ended() is not None:
                raise
            return Failure(cause_of(str(error)))
        self.restarts += 1
        return None

    def _tell_progress(self) -> None:
        told = self._running.progress()
        self._untold = not told  # Spark tells a moment after it has published the batch
        for progress in told:
            self._on_progress(progress)

    def waits(self) -> bool:
        """Whether it waits for messages, with no batch under way."""
        return self._running.waits()

    def finish_batch(self) -> None:
        """Wait until the batch under way, if there is one, is committed."""
        self._running.finish_batch()

    def stop(self) -> None:
        """Stop it, and tell how its last batches went."""
        self._running.stop()
        if self._untold:
            with contextlib.suppress(Exception):  # the engine's libraries may be gone
                self._tell_progress()

    def _batch(self, batch: Batch) -> None:
        self._restarts.worked()
        self._on_batch(batch)
        self._untold = True
