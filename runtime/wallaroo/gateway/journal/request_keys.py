"""Keys of requests whose messages are on disk: one that is repeated is not accepted again.

A client whose connection breaks before the answer cannot know whether its messages were accepted.
If its request has a key, it may repeat it: the key is stored in the transaction that accepts the
messages.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from typing import NamedTuple

SCHEMA = """
CREATE TABLE IF NOT EXISTS request_key (
    source INTEGER NOT NULL, key BLOB NOT NULL, body BLOB NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (source, key));
"""


class KeyedRequest(NamedTuple):
    """A request with a key, to be stored with its messages."""

    source: int
    """Index of the source."""
    key: bytes
    """Digest of its key."""
    body: bytes
    """Digest of its messages."""
    messages: int
    """Number of its messages."""
    forgets: bytes | None = None
    """The key that is given up for it."""


class RequestKeys:
    """The keys that are stored, by source; part of a journal.

    Args:
        database: The journal's.
        lock: Held while the database is used.
    """

    def __init__(self, database: sqlite3.Connection, lock: threading.Lock) -> None:
        self._database, self._lock = database, lock

    def of(self, source: int) -> dict[bytes, tuple[bytes, int]]:
        """Digest and number of the messages of each key of *source*, the oldest first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT key, body, messages FROM request_key WHERE source = ? ORDER BY rowid",
                (source,),
            ).fetchall()
        return {key: (body, messages) for key, body, messages in rows}


def store(database: sqlite3.Connection, requests: Sequence[KeyedRequest]) -> None:
    """Store *requests*, and delete the keys that they give up, in the current transaction."""
    database.executemany(
        "INSERT OR REPLACE INTO request_key VALUES (?, ?, ?, ?)",
        [request[:4] for request in requests],
    )
    database.executemany(
        "DELETE FROM request_key WHERE source = ? AND key = ?",
        [(request.source, request.forgets) for request in requests if request.forgets],
    )
