"""Progress and state that an outbox has published, for readers."""

from __future__ import annotations

from pathlib import Path

from wallaroo.gateway.database import reading
from wallaroo.gateway.outbox.chunks import ChunkTable


def published_changes(file: Path, run: str, after: int) -> list[bytes] | None:
    """The changes of state in the outbox *file*, which may be in use; see `Published`."""
    if not file.exists():
        return None
    with reading(file) as database:
        database.execute("BEGIN")  # both answers are of the same moment
        table = ChunkTable(database)
        progress = table.progress()
        if run not in progress:  # nothing was published, unless it was in another outbox
            return None if progress or after else []
        if progress[run].chunk < after:
            return None
        return table.all_changes(run, after)
