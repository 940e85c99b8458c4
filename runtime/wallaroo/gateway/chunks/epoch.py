"""The end of an epoch: Spark takes over its changes, while chunks of the next one may run."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from wallaroo.gateway.chunks.pace import Pace

_SAVABLE_S = 5.0
"""Seconds for which the driver's word holds that the state can be saved."""
LONG_S = 10.0
"""Seconds that the end of an epoch may take before the log says so."""
_FREED_PART = 2
"""An epoch that ends because of the journal frees one part of so many of the journal's share."""

log = structlog.get_logger("wallaroo.gateway")


class EpochTimer:
    """Decides when the current epoch of a run ends.

    Args:
        pace: How long epochs last.
        clock: Returns seconds; does not run backwards.

    Example:
        >>> now = [0.0]
        >>> epoch = EpochTimer(Pace(epoch_first_s=5, epoch_least_s=30), lambda: now[0])
        >>> epoch.begin()
        >>> now[0] = 1.0
        >>> epoch.is_over(has_chunks=False, journal_bytes=0)  # the first, for practice
        True
        >>> epoch.begin()
        >>> epoch.is_over(has_chunks=True, journal_bytes=0)
        False
        >>> now[0] = 32.0
        >>> epoch.is_over(has_chunks=True, journal_bytes=0)
        True
        >>> epoch.begin()
        >>> epoch.published(2 * 1024**3)
        >>> epoch.is_over(has_chunks=True, journal_bytes=0)
        True
        >>> epoch.ends()
        >>> epoch.handed_over()  # Spark takes over the changes
        >>> now[0] += 0.01
        >>> epoch.flows()  # a chunk of the next epoch is published
        >>> now[0] += 5.0
        >>> round(epoch.stood_s, 6), round(epoch.ending_s, 6)
        (0.01, 5.01)
    """

    def __init__(self, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self._pace = pace
        self._clock = clock
        self._epochs = 0
        self._began_at = self._last_message_at = 0.0
        self._handed_bytes = 0
        """Bytes of messages that were handed out in this epoch, at most."""
        self._published_bytes = 0
        """Bytes of outputs and changed entities that were published in it."""
        self._ending_since: float | None = None
        self._stood_s: float | None = None
        """For how long the stream has stood still at the end of the epoch; None while it does."""
        self._is_told = False

    @property
    def is_first(self) -> bool:
        """Whether the epoch is the first of the run, which ends even if nothing has changed."""
        return self._epochs == 1

    def begin(self, handed_bytes: int = 0) -> None:
        """Note that an epoch begins.

        Args:
            handed_bytes: Bytes of messages that an earlier run has handed out in it, at most.
        """
        self._epochs += 1
        self._began_at = self._clock()
        if self.is_first:
            self._last_message_at = self._began_at
        self._handed_bytes += handed_bytes
        self._ending_since = None

    def ends(self) -> None:
        """Note that the epoch is to end, and that the stream stands still, if not noted yet."""
        if self._ending_since is None:
            self._ending_since, self._stood_s, self._is_told = self._clock(), None, False

    def goes_on(self) -> None:
        """Note that the epoch is not to end yet."""
        self._ending_since = None

    def handed_over(self) -> None:
        """Note that Spark is to take over the changes: what follows is of the next epoch."""
        self._handed_bytes = self._published_bytes = 0

    def flows(self) -> None:
        """Note that the stream does not stand still, although the epoch has not ended yet."""
        if self._stood_s is None:
            self._stood_s = self.ending_s

    @property
    def stands(self) -> bool:
        """Whether the stream stands still because the epoch ends."""
        return self._ending_since is not None and self._stood_s is None

    @property
    def ending_s(self) -> float:
        """Seconds since the epoch was to end."""
        return 0.0 if self._ending_since is None else self._clock() - self._ending_since

    @property
    def stood_s(self) -> float:
        """Seconds for which the stream has stood still, until now at most."""
        return self.ending_s if self._stood_s is None else self._stood_s

    def warn_if_long(self, *, lacks_room: bool) -> None:
        """Log that its end takes long, once for each epoch.

        Args:
            lacks_room: Whether the disk of the log is full.
        """
        if self._is_told or self.ending_s <= LONG_S:
            return
        self._is_told = True
        log.warning(
            "epoch takes long to end",
            seconds=round(self.ending_s),
            reason="the disk of the log is full"
            if lacks_room
            else "Spark has not saved the state: its disk or object store is slow or away, "
            "or a step is slow",
            messages="wait" if self.stands else "are processed meanwhile",
        )

    @property
    def is_full(self) -> bool:
        """Whether more was published in it than a query that is started again should read."""
        return self._published_bytes > self._pace.published_bytes

    def handed_out(self, size: int) -> None:
        """Note that *size* bytes of messages are handed out."""
        self._handed_bytes += size
        self._last_message_at = self._clock()

    def published(self, size: int) -> None:
        """Note that *size* bytes of outputs and changed entities are published."""
        self._published_bytes += size

    def is_over(self, *, has_chunks: bool, journal_bytes: int) -> bool:
        """Whether it is time.

        Args:
            has_chunks: Whether chunks of this epoch have been handed out.
            journal_bytes: Bytes of messages in the journal.
        """
        pace, now = self._pace, self._clock()
        age_s, quiet_s = now - self._began_at, now - self._last_message_at
        least_s, most_s = pace.epoch_least_s, pace.epoch_most_s
        if self.is_first:
            least_s, most_s = 0.0, pace.epoch_first_s
        elif not has_chunks:
            return False
        return (
            age_s > most_s
            or (age_s >= least_s and quiet_s > pace.quiet_s)
            or self.is_full
            or (
                journal_bytes > pace.journal_bytes
                and self._handed_bytes > pace.journal_bytes // _FREED_PART
            )
        )


class SaveRequests:
    """Asks the driver whether Spark can save the state, before an epoch ends.

    While the store of the state is away, or its disk is full, an epoch that ended would not come to
    its end, and messages would wait.

    Args:
        ask: Sends the question to the driver, which answers as soon as it can be saved.
        clock: Returns seconds; does not run backwards.

    Example:
        >>> now, asked = [0.0], []
        >>> requests = SaveRequests(lambda: asked.append(now[0]), lambda: now[0])
        >>> requests.is_granted(), requests.is_granted(), asked
        (False, False, [0.0])
        >>> requests.grant()
        >>> requests.is_granted()
        True
        >>> now[0] = 30.0
        >>> requests.is_granted(), asked
        (False, [0.0, 30.0])
    """

    def __init__(
        self, ask: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask, self._clock = ask, clock
        self._is_asked = False
        self._granted_at: float | None = None

    def grant(self) -> None:
        """Note that it can be saved now."""
        self._is_asked, self._granted_at = False, self._clock()

    def is_granted(self) -> bool:
        """Whether it can be saved; asks, if that is not known."""
        if self._granted_at is not None and self._clock() - self._granted_at < _SAVABLE_S:
            return True
        if not self._is_asked:
            self._is_asked = True
            self._ask()
        return False
