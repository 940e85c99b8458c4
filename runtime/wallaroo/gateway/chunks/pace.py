"""Limits on the work in progress of a real-time query, and a record between runs.

`WALLAROO_PACE`, for instance `epoch_least_s=0.2,epoch_most_s=1`, is for tests: it changes any
number of `Pace`, so that epochs end every second instead of every few minutes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Self

_VARIABLE = "WALLAROO_PACE"


AWAITED_CHUNK_BYTES = 128 * 1024
"""Bytes of messages in a chunk of an application with async steps: its outputs and dead letters
come when all of its calls have ended, which takes long if a service does not answer."""


@dataclass(frozen=True)
class Pace:
    """How much is under way at a time, and when epochs end."""

    chunks: int = 4
    """Chunks under way at most."""
    chunk_bytes: int = 1024 * 1024
    """Bytes of messages in a chunk; at least what one connection has sent at once."""
    under_way_bytes: int = 16 * 1024**2
    """Bytes of messages under way from which on no more are handed out. With one message of the
    greatest size more, Spark's Java has about eight copies of each at a time, if they pass it."""
    gap_s: float = 0.0015
    """Time from one chunk to the next at least: smaller chunks cost more than they gain."""
    full_bytes: int = 64 * 1024
    """Bytes of messages that wait from which on the next chunk does not wait for more."""
    waits_for_disk: bool = False
    """Whether messages are handed out once they are on disk, not when they are written: a step with
    effects of its own is to see none that a power failure undoes."""
    batch_messages: int = 1
    """Messages that a batched step of the application waits for; those of its sources count."""
    batch_wait_s: float = 0.0
    """Seconds that it waits for them at most, once the first one is there."""
    quiet_s: float = 0.5
    """Time without messages after which an epoch may end."""
    epoch_first_s: float = 5.0
    """Time after which the first epoch of a run ends even under load, or as soon as it is quiet:
    Java has not executed that code yet and takes a second for it, so the sooner the better."""
    epoch_least_s: float = 30.0
    """Time that a later epoch lasts at least, unless the journal fills up."""
    epoch_most_s: float = 300.0
    """Time after which it ends even under load."""
    journal_bytes: int = 1024**3
    """Bytes of messages in the journal over which an epoch ends: it deletes none before."""
    published_bytes: int = 1024**3
    """Bytes of outputs and changed entities over which an epoch ends: the log has them until then,
    and a query that is started again reads the entities."""

    def adjusted(self) -> Self:
        """The pace with the changes that the environment asks for.

        Example:
            >>> os.environ["WALLAROO_PACE"] = "chunks=2,epoch_most_s=1.5"
            >>> pace = Pace(journal_bytes=8).adjusted()
            >>> pace.chunks, pace.epoch_most_s, pace.journal_bytes
            (2, 1.5, 8)
            >>> del os.environ["WALLAROO_PACE"]
        """
        pairs = [pair.split("=") for pair in os.environ.get(_VARIABLE, "").split(",") if pair]
        return replace(self, **{name: type(getattr(self, name))(number) for name, number in pairs})


@dataclass
class Resumes:
    """What outlives a run: which chunks may have failed because of their messages."""

    suspect_until: int = 0
    """Offset before which messages have been in a chunk of a run that failed."""
