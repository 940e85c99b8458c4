"""The check of a query's checkpoint against the outbox and the journal."""

from __future__ import annotations

from collections.abc import Mapping

from wallaroo.gateway.outbox.chunks import QueryProgress
from wallaroo.wire.chunk_messages import CheckpointPosition


def check_agreement(
    query: str, place: CheckpointPosition, known: Mapping[str, QueryProgress], journal_end: int
) -> None:
    """Refuse a checkpoint that the outbox does not belong to.

    Args:
        query: Name of the checkpoint's query.
        place: How far the checkpoint is.
        known: How far each query is, as of the outbox.
        journal_end: Offset after the last message of the journal.

    Raises:
        LookupError: The message names what to restore.
    """
    progress = known.get(query)
    if progress is None and known:
        msg = "the outbox has outputs of another checkpoint: restore the one that it belongs to"
    elif progress is None and place.chunk:
        msg = "the outbox has none of the chunks of this checkpoint: restore the one it had"
    elif progress is not None and progress.end > journal_end:
        msg = (
            f"the messages before {progress.end} are published, and the journal has those "
            f"before {journal_end}: restore both from copies made at the same time"
        )
    elif progress is not None and progress.chunk < place.chunk:
        msg = (
            f"the outbox has published chunks up to {progress.chunk}, and the checkpoint has "
            f"those up to {place.chunk}: restore both from copies made at the same time"
        )
    else:
        return
    raise LookupError(msg)
