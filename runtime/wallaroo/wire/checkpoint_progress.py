"""The progress of a checkpoint, reported by the engine and compared by the gateway."""

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
