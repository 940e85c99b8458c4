"""The contents of one transaction of the journal: blocks, and the positions of their sources."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wallaroo.gateway.journal import request_keys
from wallaroo.gateway.journal.block_rows import INSERT, Row, row_of
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.gateway.journal.write_buffer import Waiting
from wallaroo.wire.records import TICK_SOURCE

SCHEMA = """
CREATE TABLE IF NOT EXISTS accepted (source INTEGER PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS reached (source TEXT PRIMARY KEY, position BLOB NOT NULL);
"""


@dataclass
class Commit:
    """Blocks that are about to be accepted."""

    end: int
    """Offset after the last message."""
    accepted: dict[int, int]
    """Messages accepted from each source since the journal was new, these included."""
    size: int = 0
    """Bytes of messages."""
    rows: list[Row] = field(default_factory=list)
    reached: dict[str, bytes] = field(default_factory=dict)
    """Where to resume reading, by source."""
    stream_positions: dict[StreamName, int] = field(default_factory=dict)
    """Numbers of the last messages, by stream."""
    requests: list[KeyedRequest] = field(default_factory=list)

    def store(self, database: sqlite3.Connection) -> None:
        """Store all but the positions of streams, in the caller's transaction."""
        database.executemany(INSERT, self.rows)
        database.executemany("INSERT OR REPLACE INTO accepted VALUES (?, ?)", self.accepted.items())
        database.executemany("INSERT OR REPLACE INTO reached VALUES (?, ?)", self.reached.items())
        request_keys.store(database, self.requests)


def commit_of(taken: Sequence[Waiting], end: int, accepted: Mapping[int, int]) -> Commit:
    """What to store for *taken*.

    Args:
        taken: Blocks in order of arrival.
        end: Offset of their first message.
        accepted: Messages accepted from each source before.
    """
    commit = Commit(end, dict(accepted))
    for waiting in taken:
        if waiting.count:
            commit.rows.append(
                row_of(commit.end, waiting.count, waiting.source, waiting.arrived_ns, waiting.data)
            )
        if waiting.reached is not None:
            commit.reached[waiting.reached.source] = waiting.reached.position
        commit.end += waiting.count
        commit.size += len(waiting.data)
        if waiting.source != TICK_SOURCE:
            before = commit.accepted.get(waiting.source, 0)
            commit.accepted[waiting.source] = before + waiting.count
        if waiting.stream_position is not None:
            commit.stream_positions.update([waiting.stream_position])
        commit.requests += waiting.requests
    return commit
