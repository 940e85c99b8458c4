"""Lost messages: what the encoder of the sink of dead letters gets."""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.model.endpoints import Source
from wallaroo.wire.records import FailedMessage


@dataclass(frozen=True)
class LostMessage:
    """A failed message or a refused output."""

    application: str
    """Name of the application."""
    failed: FailedMessage
    """What is known of the failure."""
    failed_ns: int
    """When it failed, in nanoseconds since the Unix epoch."""
    source: Source | None = None
    """Its source; None for an output."""
    payload: bytes | None = None
    """What arrived, as the journal has it, or the output; None if that is not known."""
