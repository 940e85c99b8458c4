"""SQLite as the dead letters need it: a write-ahead log, synced when a commit returns."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import DamagedFile
from wallaroo.system.disk_space import is_full

_PAGE_BYTES = 32 * 1024
"""Large pages: rows hold blobs of up to some hundred KiB."""
_CHECKPOINT_PAGES = 512
"""Pages after which the write-ahead log is copied to the database: 16 MiB."""
_BUSY_MS = 10_000
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
"""The second is what a limit on the size of files leads to, the third a full disk at a start."""
_MALFORMED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REMEDY = "restore it from a copy, or remove it: only the dead letters in it are lost then"


class DamagedDatabase(DamagedFile, sqlite3.DatabaseError):
    """A database does not contain what was written to it."""

    def __init__(self, file: Path | str, problem: object) -> None:
        told = " ".join(str(problem).split())  # SQLite cites statements, which have lines
        super().__init__(f"{file} is damaged: {told}; {_REMEDY}")


@contextlib.contextmanager
def named(file: Path | str) -> Iterator[None]:
    """Name *file* in the error that the block raises if SQLite finds the database malformed.

    Raises:
        DamagedDatabase: It is.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise DamagedDatabase(file, error) from error
    except sqlite3.DatabaseError as error:
        # an extended code has the code in its last byte
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        is_malformed = code in _MALFORMED or str(error).startswith("Could not decode")
        if isinstance(error, DamagedFile) or not is_malformed:
            raise
        raise DamagedDatabase(file, error) from error


def file_of(database: sqlite3.Connection) -> str:
    """Path of the file of *database*."""
    with contextlib.suppress(sqlite3.Error):
        return str(database.execute("PRAGMA database_list").fetchone()[2])
    return "a database"


def check_structure(file: Path) -> None:
    """Look at all of the database in *file*.

    Raises:
        DamagedDatabase: It is malformed.
    """
    with reading(file) as database:
        (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedDatabase(file, " ".join(found.split()))


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the database at *path*; transactions are begun and ended by statements.

    The connection may be used by any thread, by one at a time.
    """
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _set_up(database, read_only=read_only)
    except BaseException:
        database.close()
        raise
    return database


def _set_up(database: sqlite3.Connection, *, read_only: bool) -> None:
    database.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    if read_only:
        database.execute("PRAGMA query_only=1")
        return
    database.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    # Debian's SQLite overwrites all that is deleted, which costs as much as writing it did
    database.execute("PRAGMA secure_delete=OFF")
    database.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads the database at *path*, and is closed at the end.

    Raises:
        DamagedDatabase: It is malformed.
    """
    with named(path), contextlib.closing(connect(path, read_only=True)) as database:
        yield database


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does, or undo it if the block, or the commit, raises."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException as error:
        if database.in_transaction:  # SQLite may have undone it by itself
            database.execute("ROLLBACK")
        if isinstance(error, sqlite3.DatabaseError):
            with named(file_of(database)):
                raise
        raise


def lacks_room(error: sqlite3.Error | OSError) -> bool:
    """Whether *error* says that the disk took no more: it may, later.

    A failed sync is different: after it, what is on disk is unknown.
    """
    if isinstance(error, OSError):
        return is_full(error)
    return getattr(error, "sqlite_errorcode", None) in _NO_ROOM
