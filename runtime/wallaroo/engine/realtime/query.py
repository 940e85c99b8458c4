"""A real-time query of Spark, with the Python processes that it moves chunks between."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wallaroo.engine.realtime.feed import Feed
from wallaroo.engine.realtime.java import start_query, why_ended
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.process import CUT_OFF, name_of
from wallaroo.engine.realtime.shared_files import remove
from wallaroo.engine.spark.errors import Failure
from wallaroo.engine.spark.supervised_query import NotYet, failure_of
from wallaroo.system.memory import MemoryKills
from wallaroo.system.process_end import how_ended
from wallaroo.wire.chunk_messages import DRIVER, News
from wallaroo.wire.look_ups import LookUp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnPublished = Callable[[News], None]
"""Called with what was published, in a thread of the engine; must be quick."""
_LOOK_EVERY_S = 1.0
"""Pause between two questions to Java whether the query runs, which cost a millisecond together: if
one of its processes ends, the gateway says so at once."""
_REASON_S = 3.0
"""Time for Spark to report why a query ends that the gateway has cut off."""
_ENDED = re.compile(r"process (-?\d+) ended: (-?\d+)")
"""What a task says whose process has ended; see `Processes.scala`."""


class RealTimeQuery:
    """A query that was started; see `Query` of `supervised_query`.

    Args:
        session: Spark.
        job: What the processes need.
        name: Name of the application.
        on_published: Called with what was published.
        on_epochs: Called when epochs have ended, with the seconds for which the stream stood.
        lack: Returns why the state cannot be saved now, or None.
        held: Whether the gateway is to hand out no chunks, until `release`.

    Raises:
        NotYet: The gateway is not there.
        Exception: It did not start.
    """

    def __init__(
        self,
        session: SparkSession,
        job: Job,
        name: str,
        on_published: OnPublished,
        on_epochs: Callable[[Sequence[float]], None] = lambda _seconds: None,
        lack: Callable[[], str | None] = lambda: None,
        *,
        held: bool = False,
    ) -> None:
        self._on_published = on_published
        self._on_epochs = on_epochs
        self._attempt = job.attempt
        self._files = job.files
        jvm: Any = session._jvm
        self._agent: Any = jvm.wallaroo.realtime.Agent  # Py4J looks its name up each time
        self._query: Any = None
        self._kills = MemoryKills()
        self._cut_off_at: float | None = None
        """When the gateway was found to have cut it off."""
        self._look_at = 0.0
        """When to ask Java again."""
        hello = job.hello(DRIVER)
        try:
            self._feed = Feed(job.gateway, hello, self._on_news, lack)
        except OSError as error:
            msg = f"the gateway cannot be reached: {error}"
            raise NotYet(msg) from error
        if held:
            self.hold()
        try:
            self._query = start_query(
                session, name, job.attempt, job, job.partitions, job.checkpoint
            )
        except BaseException:
            self.stop()
            raise

    def failure(self) -> Failure | None:
        """Why it stopped by itself; None while it runs."""
        cut_off = self._feed.failure
        if cut_off is not None and cut_off.final:
            return cut_off
        now = time.monotonic()
        if cut_off is None and now < self._look_at:
            return None
        self._look_at = now + _LOOK_EVERY_S
        if ended := str(self._agent.firstEnded()):
            return Failure(self._in_words(*map(int, ended.split())))
        if self._query.isActive():
            if cut_off is None:
                return None
            self._cut_off_at = self._cut_off_at or now
            return cut_off if now - self._cut_off_at > _REASON_S else None
        return self._ended(cut_off)

    def hold(self) -> None:
        """Let the gateway hand out no more chunks."""
        self._feed.hold()

    def release(self) -> None:
        """Let the gateway hand out chunks again."""
        self._feed.release()

    def finish_epoch(self, timeout_s: float | None = None) -> None:
        """Wait until Spark has the state as of all that is published; see `Feed.finish_epoch`."""
        self._feed.finish_epoch(timeout_s)

    def look_up(self, asked: Sequence[LookUp]) -> list[dict[str, Any]]:
        """Look entities up; see `Feed.look_up`."""
        return self._feed.look_up(asked)

    def stop(self) -> None:
        """Stop it, and its processes."""
        self._feed.close()  # upon which the gateway cuts off the processes
        with contextlib.suppress(Exception):  # Java may be gone
            self._agent.end(self._attempt)
        if self._query is not None:
            with contextlib.suppress(Exception):
                self._query.stop()
        if self._files is not None:
            remove(self._files)

    def _ended(self, cut_off: Failure | None) -> Failure:
        """Why Spark has ended it, or why the gateway had cut it off before."""
        failure = failure_of(why_ended(self._query))
        if (known := _ENDED.search(failure.reason)) is None:
            return failure
        role, code = map(int, known.groups())
        if code == CUT_OFF and cut_off is not None:
            return cut_off
        return Failure(self._in_words(role, code))

    def _in_words(self, role: int, code: int) -> str:
        """That the process *role* has ended with *code*."""
        how = "was cut off" if code == CUT_OFF else how_ended(code, self._kills)
        return f"the process of {name_of(role)} {how}"

    def _on_news(self, news: News) -> None:
        if news.publications:
            self._on_published(news)
        if news.epochs:
            self._on_epochs(news.epochs)
