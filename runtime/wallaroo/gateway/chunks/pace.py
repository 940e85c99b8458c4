"""How much of a real-time query is under way at a time, and what one run leaves to the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How much is under way at a time, and when epochs end."""

    chunks: int = 4
    """Chunks under way at most."""
    chunk_bytes: int = 512 * 1024
    """Bytes of messages in a chunk; at least what one connection has sent at once."""
    gap_s: float = 0.001
    """Time from one chunk to the next at least: smaller chunks cost more than they gain."""
    quiet_s: float = 0.5
    """Time without messages after which an epoch may end."""
    epoch_least_s: float = 30.0
    """Time that an epoch lasts at least, unless the journal fills up."""
    epoch_most_s: float = 300.0
    """Time after which it ends even under load."""
    journal_bytes: int = 1024**3
    """Bytes of messages in the journal over which an epoch ends: it deletes none before."""


@dataclass
class Resumes:
    """What outlives a run: which chunks may have failed because of their messages."""

    suspect_until: int = 0
    """Offset before which messages have been in a chunk of a run that failed."""
