"""Supervises a query and restarts it when it fails."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from wallaroo.engine.spark.checkpoint.damage import Diagnosis, damaged_file_in, is_damage
from wallaroo.engine.spark.errors import Failure, cause_of
from wallaroo.errors import RuntimeFailure, UsageError, WallarooError
from wallaroo.observability.logs import Reminder
from wallaroo.system.restarts import Restart, Restarts

log = structlog.get_logger("wallaroo")

_MOST_DAMAGED = 2
"""Failures to read the state within some minutes after which a damaged file ends the run: the first
may be a disk's hiccup."""
_DAMAGED_S = 600.0
"""Seconds within which these failures count together."""
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_LOOK_AGAIN_S = 0.2
"""Pause before a query is started again that lacked something."""


class NotYet(Exception):
    """What a query needs is not there yet, such as executors: it is to be started later."""


class NoRoom(NotYet):
    """A disk is full."""


class Query(Protocol):
    """A started query."""

    def failure(self) -> Failure | None:
        """Return why it stopped by itself; None while it runs."""

    def finish_epoch(self, timeout_s: float | None = None) -> None:
        """Wait until Spark has the state as of all that is published, or raise `RuntimeFailure`."""

    def stop(self) -> None:
        """Stop it; what is not published is processed again at the next start."""


def failure_of(error: str) -> Failure:
    """The failure of a query that *error*, a text of Spark's, describes.

    Example:
        >>> failure = failure_of("java.io.IOException: Stream is corrupted")
        >>> failure.reason, failure.final, failure.damage
        ('java.io.IOException: Stream is corrupted', False, True)
    """
    if (ours := damaged_file_in(error)) is not None:
        return Failure(ours, final=True)
    reason = cause_of(error)
    if _OUT_OF_MEMORY in reason:
        reason = (
            "Spark's Java ran out of memory; give it more with --conf spark.driver.memory, or on "
            f"executors with --conf spark.executor.memory ({reason})"
        )
    return Failure(reason, damage=is_damage(error))


class SupervisedQuery:
    """A query that is restarted when it fails.

    Args:
        start: Starts the query, and is given what to call whenever that has published something.
        ended: Returns how the process under the engine ended, and whether *start* cannot bring it
            back; None while it runs.
        diagnose: Finds out why the state cannot be read, from what Spark says.
        shortage: Says which disk is full; None if none is. The query waits until there is room.
    """

    def __init__(
        self,
        start: Callable[[Callable[[], None]], Query],
        ended: Callable[[], Failure | None],
        diagnose: Callable[[str], Diagnosis] = lambda reason: Diagnosis(reason, True),
        shortage: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._start = start
        self._ended = ended
        self._diagnose = diagnose
        self._shortage = shortage
        self._damaged: deque[float] = deque(maxlen=_MOST_DAMAGED)
        """When the last failures to read the state were."""
        self.restarts = 0
        """Number of restarts."""
        self._restarts = Restarts()
        self._restart_at: float | None = None
        """When to start the query again; None while it runs."""
        self._is_planned = False
        """Whether the next start follows no failure."""
        self._lacks = Reminder()
        """What the query lacks, as last logged; empty if nothing."""
        self._running: Query = _NotStarted()
        try:
            self._running = start(self.worked)
        except NotYet as reason:
            self._is_planned = True
            self._wait(reason)

    def failure(self) -> str | None:
        """Check the query and restart it if necessary; returns why that has been given up."""
        try:
            if self._restart_at is None:
                failure = self._running.failure()
            elif time.monotonic() < self._restart_at:
                return None
            else:
                failure = self._restart()
        except Exception as error:  # the engine's libraries raise anything if it has ended
            cause = cause_of(str(error))
            message = f"the engine has ended ({cause}); start again with the same --state-dir"
            failure = self._ended() or Failure(message, final=True)
        return None if failure is None else self._give_up_or_wait(failure)

    def _give_up_or_wait(self, failure: Failure) -> str | None:
        """Decide whether to start again after *failure*; returns why not, or None."""
        if failure.final:
            return failure.reason
        waits = NotYet(failure.reason) if failure.planned else None
        if waits is None:
            lack = failure.reason if failure.no_room else self._shortage()
            waits = None if lack is None else NoRoom(lack)
        if waits is not None:
            self._is_planned = self._is_planned or failure.planned
            self._wait(waits)
            return None
        found = None
        if failure.damage and self._is_given_up():
            found = self._diagnose(failure.reason)  # it reads all of the state
            if found.is_sure:
                return found.sentence
        pause = self._restarts.pause(failure.reason)
        if pause is None:
            if failure.damage:
                return (found or self._diagnose(failure.reason)).sentence
            return f"the query failed {self._restarts.failures} times in a row: {failure.reason}"
        log.warning("query restarts", reason=failure.reason, pause_s=pause)
        self._restart_at = time.monotonic() + pause
        return None

    def _is_given_up(self) -> bool:
        """Note a failure to read the state; returns whether it was the last one to try again."""
        now = time.monotonic()
        self._damaged.append(now)
        return len(self._damaged) == _MOST_DAMAGED and now - self._damaged[0] < _DAMAGED_S

    def _restart(self) -> Failure | None:
        """Restart the query; returns why that failed, or None."""
        try:
            self._running = self._start_anew()
        except NotYet as reason:
            self._wait(reason)
            return None
        except UsageError as error:
            return Failure(str(error), final=True)
        except Exception as error:  # e.g. a helper process of Spark may have been killed
            ended = None if isinstance(error, WallarooError) else self._ended()
            return ended or failure_of(str(error) or type(error).__name__)
        self._restart_at = None  # not before: until here it does not run
        self._lacks.reason = ""
        self.restarts += not self._is_planned
        self._is_planned = False
        return None

    def _start_anew(self) -> Query:
        """Start the query again.

        Raises:
            NotYet: It lacks something.
        """
        if (lack := self._shortage()) is not None:
            raise NoRoom(lack)
        return self._start(self.worked)

    def _wait(self, reason: NotYet) -> None:
        self._restart_at = time.monotonic() + _LOOK_AGAIN_S
        if self._lacks.show(str(reason)):
            tell = log.warning if isinstance(reason, NoRoom) else log.info
            tell("query waits", reason=str(reason))

    @property
    def lack(self) -> str | None:
        """What it waits for; None if it runs, or restarts."""
        return self._lacks.reason or None

    def last_restarts(self) -> Sequence[Restart]:
        """Its last restarts after failures, the oldest first."""
        return tuple(self._restarts.last)

    def interruption(self) -> str | None:
        """Why it does not run now and will be started again; None while it runs."""
        if self._restart_at is None:
            return None
        if self._lacks.reason:
            return f"the query waits: {self._lacks.reason}"
        if self._is_planned or not self._restarts.last:
            return "the query is started anew"
        return f"the query restarts: {self._restarts.last[-1].reason}"

    def replace(self) -> None:
        """Stop the query; `failure` starts it again."""
        self._running.stop()
        self._restart_at, self._is_planned = time.monotonic(), True

    def worked(self) -> None:
        """Count failures anew: it has published something, or its code is another one."""
        self._restarts.worked()

    def finish_epoch(self, timeout_s: float | None = None) -> None:
        """Wait until Spark has the state as of all that is published."""
        self._running.finish_epoch(timeout_s)

    def stop(self) -> None:
        """Stop it."""
        self._running.stop()


class _NotStarted:
    """In the place of a query that lacked something at the start."""

    def failure(self) -> Failure | None:
        """See `Query.failure`."""
        return None

    def finish_epoch(self, timeout_s: float | None = None) -> None:  # noqa: ARG002
        """See `Query.finish_epoch`."""
        msg = "the query has not started yet"
        raise RuntimeFailure(msg)

    def stop(self) -> None:
        """See `Query.stop`."""
