"""SQLite as journal and outbox want it: written ahead, on disk when a commit returns."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

_PAGE_BYTES = 32 * 1024
"""Large pages: rows hold blobs of up to some hundred KiB."""
_CHECKPOINT_PAGES = 512
"""Pages after which the write-ahead log is copied to the database: 16 MiB."""
_BUSY_MS = 10_000


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the database at *path*; transactions are begun and ended by statements.

    The connection may be used by any thread, by one at a time.
    """
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    if read_only:
        database.execute("PRAGMA query_only=1")
        return database
    database.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    return database


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does, or undo it if the block raises."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
