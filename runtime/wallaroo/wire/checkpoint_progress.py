"""How far a checkpoint is, as the engine tells it and the gateway compares it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointProgress:
    """How far a checkpoint is; by default, one of which no epoch has ended."""

    run: str | None = None
    """Name of the query, under which the outbox knows its chunks; None if there is no query yet."""
    chunk: int = 0
    """Number of the last chunk whose changes of state it has; 0 for none."""
    end: int = 0
    """Offset after the last message of that chunk."""
    opening: str | None = None
    """Opening of the journal under which the message was numbered; None if that was not noted."""
