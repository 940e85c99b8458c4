"""Progress and state that an outbox has published, for readers."""

from __future__ import annotations

from pathlib import Path

from wallaroo.gateway.database import reading
from wallaroo.gateway.outbox.chunks import ChunkTable


class PublishedChanges:
    """The changes of state in the outbox *file*, which need not exist and may be in use.

    Args:
        file: The outbox's database.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, run: str, after: int) -> list[bytes] | None:
        """See `Published`."""
        if not self._file.exists():
            return None
        with reading(self._file) as database:
            database.execute("BEGIN")  # both answers are of the same moment
            table = ChunkTable(database)
            progress = table.progress()
            if run not in progress:  # nothing was published, unless it was in another outbox
                return None if progress or after else []
            if progress[run].chunk < after:
                return None
            return table.all_changes(run, after)
