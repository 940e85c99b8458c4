"""Reads of the newest messages of the journal, over one connection that stays open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wallaroo.gateway.database import connect
from wallaroo.gateway.journal.block_rows import COLUMNS, block_in
from wallaroo.gateway.journal.reader import check_gapless
from wallaroo.wire.records import Block


class JournalTail:
    """The messages of a journal from any offset on, for one thread.

    Args:
        path: File of the journal's database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = connect(path, read_only=True)

    def read(self, start: int, max_bytes: int) -> Sequence[Block]:
        """The first messages from offset *start* on, of about *max_bytes*; none if there are none.

        Raises:
            LookupError: Some of them are not there, but later ones are.
            DamagedDatabase: A block is not as it was written.
        """
        found: list[Block] = []
        size, reached = 0, start
        cursor = self._database.execute(
            f"SELECT {COLUMNS} FROM chunk WHERE first >= ? ORDER BY first", (start,)
        )
        for row in cursor:  # not several at a time: each may have a megabyte
            block = block_in(row, self._path)
            check_gapless(reached, block.first)
            reached = block.first + block.messages
            found.append(block)
            size += len(row[4])
            if size >= max_bytes:
                break
        cursor.close()  # it would keep the database from shrinking
        return found

    def close(self) -> None:
        """Close the connection."""
        self._database.close()
