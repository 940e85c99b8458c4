"""How much of each stream of the acknowledged protocol is on disk, beside the messages."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from wallaroo.gateway.database import transaction

SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (
    source INTEGER NOT NULL, name TEXT NOT NULL, last INTEGER NOT NULL, used_ns INTEGER NOT NULL,
    PRIMARY KEY (source, name));
"""
REPLAYS = ""
"""Name of the stream that replays of dead letters are; no sender can give a stream such a name."""
_IDLE_NS = 30 * 24 * 3600 * 10**9
"""A stream not used for so long, 30 days, is forgotten when another needs its place."""


class StreamName(NamedTuple):
    """Which stream of the acknowledged protocol."""

    source: int
    """Index of the source."""
    stream: str
    """Its own name."""


StreamPosition = tuple[StreamName, int]
"""A stream, and the number of its last message in a chunk."""


class StreamPositions:
    """The number of the last message on disk, by stream; part of a journal.

    Args:
        database: The journal's.
        lock: Held while the database is used.
        changed: Held while this object is used, and notified when more is on disk.
        most: Streams that are remembered at most.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        lock: threading.Lock,
        changed: threading.Condition,
        most: int,
    ) -> None:
        self._database, self._lock, self._changed, self._most = database, lock, changed, most
        database.executescript(SCHEMA)
        self._last = {
            StreamName(source, name): last
            for source, name, last in database.execute("SELECT source, name, last FROM stream")
        }

    def open(self, name: StreamName) -> int | None:
        """The number of the last message of a stream that is on disk, 0 for a new stream.

        None if the limit of streams is reached and all have been used recently.
        """
        with self._changed:
            if name not in self._last and len(self._last) >= self._most:
                self._forget_idle()
                if len(self._last) >= self._most:
                    return None
            return self._last.setdefault(name, 0)

    def last(self, name: StreamName) -> int:
        """The number of the last message of a stream that is on disk, 0 if there is none."""
        with self._changed:
            return self._last.get(name, 0)

    def wait(self, name: StreamName, number: int, timeout_s: float) -> bool:
        """Wait until message *number* of a stream is on disk; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._last.get(name, 0) >= number, timeout_s)

    def drop(self, name: StreamName) -> None:
        """Forget a stream that never had a message."""
        with self._changed:
            if self._last.get(name) == 0:
                del self._last[name]

    def save(self, positions: Mapping[StreamName, int], used_ns: Mapping[StreamName, int]) -> None:
        """Write *positions*, last used at *used_ns*, in the current transaction."""
        self._database.executemany(
            "INSERT OR REPLACE INTO stream VALUES (?, ?, ?, ?)",
            [(*name, last, used_ns[name]) for name, last in positions.items()],
        )

    def saved(self, positions: Mapping[StreamName, int]) -> None:
        """Note that *positions* are on disk; the caller holds `changed`, and notifies."""
        self._last.update(positions)

    def _forget_idle(self) -> None:
        oldest = time.time_ns() - _IDLE_NS
        with self._lock, transaction(self._database):
            gone = self._database.execute(
                "DELETE FROM stream WHERE used_ns < ? RETURNING source, name", (oldest,)
            ).fetchall()
        for source, name in gone:
            self._last.pop(StreamName(source, name), None)
