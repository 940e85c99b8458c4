"""SQLite as journal and outbox need it: a write-ahead log, synced when a commit returns."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from wallaroo.errors import RESTORE, DamagedFile, RuntimeFailure
from wallaroo.system.disk_space import free_bytes, reserved_bytes

FORMAT = 3
"""Version of the layout of the journal and the outbox."""
_PAGE_BYTES = 32 * 1024
"""Large pages: rows hold blobs of up to some hundred KiB."""
_CHECKPOINT_PAGES = 512
"""Pages after which the write-ahead log is copied to the database: 16 MiB."""
_BUSY_MS = 10_000
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
"""The second is what a limit on the size of files leads to, the third a full disk at a start."""
_MALFORMED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class DamagedDatabase(DamagedFile, sqlite3.DatabaseError):
    """A database does not contain what was written to it."""

    def __init__(self, file: Path | str, problem: object, remedy: str = RESTORE) -> None:
        told = " ".join(str(problem).split())  # SQLite cites statements, which have lines
        super().__init__(f"{file} is damaged: {told}; {remedy}")


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


def checksum(blob: bytes | bytearray, *values: int | float | str | bytes | None) -> int:
    """The checksum of a row with *blob* and *values*.

    Example:
        >>> checksum(b"a b", 1, "x") == checksum(b"a b", 1, "y")
        False
    """
    return zlib.crc32(blob, zlib.crc32(repr(values).encode()))


def _row_sum(*values: int | float | str | bytes | None) -> int:
    return checksum(b"", *values)


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
    # for the triggers of `row_sums`: the second lets them see what a REPLACE deletes
    database.create_function("row_sum", -1, _row_sum, deterministic=True)
    database.execute("PRAGMA recursive_triggers=ON")
    database.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    # statements with triggers keep a journal of their own, by default in a temporary file
    database.execute("PRAGMA temp_store=MEMORY")
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


def claim(path: Path, application: str) -> None:
    """Make the database at *path* that of *application*, if it is new, or see that it is.

    Raises:
        RuntimeFailure: It is another application's, or of another version.
        DamagedDatabase: The file is not a database.
    """
    with named(path), contextlib.closing(connect(path)) as database, transaction(database):
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not version and not tables:
            database.execute("CREATE TABLE about (application TEXT NOT NULL)")
            database.execute("INSERT INTO about VALUES (?)", (application,))
            database.execute(f"PRAGMA user_version={FORMAT}")
            return
        if version != FORMAT:
            msg = (
                f"{path} has format {version}, and this version of wallaroo reads format "
                f"{FORMAT}; give another --state-dir"
            )
            raise RuntimeFailure(msg)
        (owner,) = database.execute("SELECT application FROM about").fetchone()
        if owner != application:
            msg = (
                f"{path} belongs to the application {owner!r}, and this is {application!r}; "
                "give another --state-dir"
            )
            raise RuntimeFailure(msg)


@contextlib.contextmanager
def unsynced(database: sqlite3.Connection) -> Iterator[None]:
    """Do not wait for the disk when the block commits: the next commit outside it does.

    What is committed survives the end of the process, but perhaps not that of the machine.
    """
    database.execute("PRAGMA synchronous=NORMAL")
    try:
        yield
    finally:
        database.execute("PRAGMA synchronous=FULL")


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


def lacks_room(error: sqlite3.Error) -> bool:
    """Whether *error* says that the disk took no more: it may, later.

    A failed sync is different: after it, what is on disk is unknown.
    """
    return getattr(error, "sqlite_errorcode", None) in _NO_ROOM


def lacks_reserve(database: sqlite3.Connection, directory: Path, size: int) -> str:
    """Why *size* more bytes should not be stored yet; empty if they may.

    A journal that takes the last of a disk lets the outbox, which usually shares it, publish no
    more outputs, and then nothing can leave the journal.

    Args:
        database: The database of the journal.
        directory: Where it is.
        size: Bytes of new messages.
    """
    reserved, free = reserved_bytes(directory), free_bytes(directory)
    if free >= reserved:
        return ""
    (pages,) = database.execute("PRAGMA freelist_count").fetchone()
    (page,) = database.execute("PRAGMA page_size").fetchone()
    if pages * page >= 2 * size:  # the file has room in itself
        return ""
    mib = 1024**2
    return f"{free / mib:,.1f} MiB of the disk are free, and {reserved / mib:,.1f} are reserved"
