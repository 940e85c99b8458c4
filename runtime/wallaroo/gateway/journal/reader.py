"""Reads the journal's blocks, over separate connections so as never to wait for a writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wallaroo.gateway.database import reading
from wallaroo.gateway.journal.block_rows import COLUMNS, block_in
from wallaroo.wire.records import Block

_LIST_BYTES = 4 * 1024 * 1024
"""Bytes of messages that a read gives at a time."""


class BlockReader:
    """The blocks that are on disk.

    Args:
        path: File of the journal's database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def reach(self, after: int, max_bytes: int, max_messages: int) -> int:
        """The largest offset to which so many messages after *after* reach, one block at least."""
        end, total = after, 0
        with reading(self._path) as database:
            rows = database.execute(
                "SELECT first + count, length(data) FROM chunk WHERE first >= ? ORDER BY first",
                (after,),
            )
            for reached, size in rows:
                total += size
                if end > after and (total > max_bytes or reached > after + max_messages):
                    break
                end = reached
        return end

    def read(self, start: int, end: int) -> Iterator[list[Block]]:
        """The blocks of [*start*, *end*), in lists of a few MiB.

        Raises:
            LookupError: Some of it is missing.
            DamagedDatabase: A block is not as it was written.
        """
        reached = start
        with reading(self._path) as database:
            found: list[Block] = []
            size = 0
            for row in database.execute(
                f"SELECT {COLUMNS} FROM chunk WHERE first >= ? AND first < ? ORDER BY first",
                (start, end),
            ):
                block = block_in(row, self._path)
                check_gapless(reached, block.first)
                reached = block.first + block.messages
                found.append(block)
                size += len(block.data)
                if size >= _LIST_BYTES:
                    yield found
                    found, size = [], 0
            check_gapless(reached, end)
            if found:
                yield found

    def arrival(self, number: int) -> tuple[int, int] | None:
        """Source of message *number*, and when it arrived; None if it is no longer there."""
        with reading(self._path) as database:
            row = database.execute(
                "SELECT source, arrived_ns, first + count FROM chunk WHERE first <= ? "
                "ORDER BY first DESC LIMIT 1",
                (number,),
            ).fetchone()
        return row[:2] if row and number < row[2] else None

    def beyond(self, offset: int) -> Iterator[Block]:
        """The blocks with messages from *offset* on, in order of arrival."""
        with reading(self._path) as database:
            for row in database.execute(
                f"SELECT {COLUMNS} FROM chunk WHERE first + count > ? ORDER BY first",
                (offset,),
            ):
                yield block_in(row, self._path)

    def sizes(self, offset: int) -> list[tuple[int, int, int]]:
        """Source, end and bytes of each block with messages from *offset* on, in order."""
        with reading(self._path) as database:
            return database.execute(
                "SELECT source, first + count, length(data) FROM chunk WHERE first + count > ? "
                "ORDER BY first",
                (offset,),
            ).fetchall()

    def waiting(self, offset: int, now_ns: int) -> tuple[dict[int, int], float]:
        """Messages of each source from *offset* on, and how many seconds the first has waited."""
        with reading(self._path) as database:
            rows = database.execute(
                "SELECT source, sum(count), min(arrived_ns) FROM chunk WHERE first >= ? "
                "GROUP BY source",
                (offset,),
            ).fetchall()
        first_ns = min((arrived_ns for _, _, arrived_ns in rows), default=None)
        waited_s = 0.0 if first_ns is None else max(0.0, (now_ns - first_ns) / 1e9)
        return {source: count for source, count, _ in rows}, waited_s


def check_gapless(reached: int, following: int) -> None:
    """A journal that was lost, or restored from a copy, must not look like an empty one.

    Raises:
        LookupError: The messages from *reached* up to *following* are missing.
    """
    if reached != following:
        msg = f"messages {reached} to {following - 1} are not in the journal: was it replaced?"
        raise LookupError(msg)
