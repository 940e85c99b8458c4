"""How far a checkpoint is, as an engine tells it and the gateway compares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Offsets = Mapping[str, int]
"""By log, the number of the first message that has not been taken; a log that is missing has 0."""


@dataclass(frozen=True)
class CheckpointProgress:
    """How far the query of a checkpoint is; by default, one that has planned no batch."""

    run: str | None = None
    """Name under which the query publishes its epochs."""
    batch: int = -1
    """Number of the last batch that was planned."""
    planned: Offsets = field(default_factory=dict)
    """Offsets after that batch."""
    opening: str | None = None
    """Opening of the journal under which it was planned; None if that was not noted."""
    committed: Offsets = field(default_factory=dict)
    """Offsets after the last batch that is committed."""
    published: int = -1
    """Number of the last batch that must have been published."""
    in_chunks: bool = False
    """Whether what is published after that batch lies in the outbox, and `batch` is the number of
    the last chunk that the checkpoint has."""
