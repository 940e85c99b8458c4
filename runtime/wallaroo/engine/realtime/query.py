"""A real-time query of Spark, with the Python processes that it moves chunks between."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wallaroo.engine.base import Batch, Failure, OnBatch, Progress
from wallaroo.engine.realtime.feed import Feed
from wallaroo.engine.realtime.messages import DRIVER, READER, Hello, News, Place
from wallaroo.engine.realtime.metrics import timed
from wallaroo.engine.realtime.process import JOB, Job, socket_of
from wallaroo.engine.realtime.settings import LONGEST_EPOCH_MS
from wallaroo.engine.realtime.shared_files import fresh_directory, remove
from wallaroo.engine.spark.errors import cause_of
from wallaroo.errors import RuntimeFailure
from wallaroo.system.process_end import how_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_S = 60.0
"""Time for the Python processes to start."""
_LOOK_EVERY_S = 0.01


class RealTimeQuery:
    """A query that was started; see `Query` of `supervised_query`.

    Args:
        session: Spark.
        job: What the processes need.
        name: Name of the application.
        scratch: Directory for temporary files.
        on_batch: Called with what was published.
        on_epochs: Called when epochs have ended, with the seconds for which the stream stood.

    Raises:
        RuntimeFailure: It did not start.
    """

    def __init__(
        self,
        session: SparkSession,
        job: Job,
        name: str,
        scratch: Path,
        on_batch: OnBatch,
        on_epochs: Callable[[Sequence[float]], None] = lambda _seconds: None,
    ) -> None:
        self._on_batch = on_batch
        self._on_epochs = on_epochs
        self._directory = Path(tempfile.mkdtemp(prefix="query-", dir=scratch))
        self._files = fresh_directory(job.checkpoint)
        job = dataclasses.replace(job, files=self._files)
        (self._directory / JOB).write_bytes(pickle.dumps(job))
        self._jvm: Any = session._jvm
        roles = [READER, *range(job.partitions)]
        self._processes = {role: self._launched(role) for role in roles}
        self._query: Any = None
        try:
            hello = Hello(job.claim, job.attempt, DRIVER, job.partitions)
            self._feed = Feed(Path(job.gateway), hello, self._on_news)
            self._wait_for_processes()
            self._query = self._jvm.wallaroo.realtime.Query.start(
                session._jsparkSession,
                name,
                str(self._directory),
                str(job.checkpoint),
                Place().to_json(),
                LONGEST_EPOCH_MS,
            )
        except BaseException:
            self.stop()
            raise

    def failure(self) -> Failure | None:
        """Why it stopped by itself; None while it runs."""
        if self._feed.failure is not None and self._feed.failure.final:
            return self._feed.failure
        for role, process in self._processes.items():
            if (code := process.poll()) is not None:
                which = "the first stage" if role == READER else f"partition {role}"
                return Failure(f"the process of {which} {how_ended(code)}")
        if self._query.isActive():
            return self._feed.failure
        error = self._query.exception()
        reason = "the query stopped" if error.isEmpty() else cause_of(str(error.get().toString()))
        return Failure(reason)

    def progress(self) -> Sequence[Progress]:
        """Nothing: each `Batch` has it."""
        return ()

    def waits(self) -> bool:
        """Whether nothing is under way as far as is known here."""
        return True

    def finish_batch(self) -> None:
        """Wait until Spark has the state as of all that is published."""
        self._feed.finish_epoch()

    def stop(self) -> None:
        """Stop it, and its processes."""
        if hasattr(self, "_feed"):
            self._feed.close()
        for process in self._processes.values():
            process.kill()
        if self._query is not None:
            with contextlib.suppress(Exception):  # Java may be gone
                self._query.stop()
        with contextlib.suppress(Exception):
            self._jvm.wallaroo.realtime.Bridge.forgetAll(str(self._directory))
        for process in self._processes.values():
            process.wait()
        if self._files is not None:
            remove(self._files)

    def _launched(self, role: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "wallaroo.engine.realtime.process"]
        return subprocess.Popen([*command, str(self._directory), str(role)])

    def _wait_for_processes(self) -> None:
        deadline = time.monotonic() + _START_S
        missing = dict(self._processes)
        while missing:
            for role, process in list(missing.items()):
                if socket_of(self._directory, role).exists():
                    del missing[role]
                elif process.poll() is not None or time.monotonic() > deadline:
                    msg = "a process of the query did not start"
                    raise RuntimeFailure(msg)
            time.sleep(_LOOK_EVERY_S)

    def _on_news(self, news: News) -> None:
        if news.publications:
            publications = [timed(one) for one in news.publications]
            self._on_batch(Batch(news.publications[-1].last, news.tally, publications))
        if news.epochs:
            self._on_epochs(news.epochs)
