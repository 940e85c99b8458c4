"""The comparison of journal and outbox with their marks, to detect lost data.

A write-ahead log that was cut or removed, or a database that was emptied or replaced by an older
copy, is intact for SQLite. Without the marks, accepted messages would be missing silently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import structlog

from wallaroo.gateway.consistency.acceptance import is_asked
from wallaroo.gateway.consistency.agreement import JOURNAL, OUTBOX, read_held
from wallaroo.gateway.consistency.damage import keep_letter
from wallaroo.gateway.database import DamagedDatabase, connect, named, reading, transaction
from wallaroo.gateway.journal.block_rows import INSERT, SKIP, row_of
from wallaroo.gateway.journal.journal import SCHEMA as JOURNAL_SCHEMA
from wallaroo.gateway.journal.openings import is_known
from wallaroo.gateway.journal.positions import time_in
from wallaroo.gateway.marks import Mark, mark_file, read_mark, remove_mark
from wallaroo.gateway.outbox.outbox import published_chunks
from wallaroo.wire.records import TICK_SOURCE

log = structlog.get_logger("wallaroo.gateway")


def check_for_loss(directory: Path, sources: Sequence[str], *, skip: bool = False) -> None:
    """Compare journal and outbox in *directory*, which no process may have open, with their marks.

    Args:
        directory: The directory.
        sources: Names of the application's sources.
        skip: Whether to go on without what is missing.

    Raises:
        DamagedDatabase: Something is missing, and may not be.
    """
    journal, outbox = directory / JOURNAL, directory / OUTBOX
    if is_asked(directory):  # to resume without what they had
        remove_mark(journal)
        remove_mark(outbox)
        return
    if (problem := _missing_messages(journal)) is not None:
        start, end = problem
        if not skip:
            raise _lacks(
                journal,
                f"messages {start} to {end - 1}, which were accepted, are missing",
                "the application resumes without them",
            )
        place = f"{JOURNAL}: messages {start} to {end - 1}"
        keep_letter(outbox, 0, sources[0], place, b"", "it is missing from the file")
        if start:
            _fill(journal, start, end)
        remove_mark(journal)
        log.warning("missing messages skipped", file=str(journal), start=start, end=end)
    if _lacks_chunks(outbox):
        if not skip:
            raise _lacks(
                outbox,
                "outputs that were published last are missing",
                "the messages that led to them are processed again, and outputs that were "
                "delivered are sent a second time",
            )
        remove_mark(outbox)
        log.warning("missing outputs skipped", file=str(outbox))


def _mark_of(database: Path) -> Mark | None:
    """The mark of *database*; one that cannot be read is told, as a power failure may leave it."""
    mark, file = read_mark(database), mark_file(database)
    if mark is None and file.exists() and file.stat().st_size:  # else nothing was noted yet
        log.warning(
            "damaged mark ignored",
            file=str(file),
            reason="it does not match its checksum",
            consequence=f"if the end of {database.name} is missing, nothing tells it at this start",
        )
    return mark


def _missing_messages(journal: Path) -> tuple[int, int] | None:
    """The numbers of messages that are missing at the end, from one up to another; None if none."""
    mark = _mark_of(journal)
    if mark is None:
        return None
    held = read_held(journal.parent)
    if held.end > mark.reached and not is_known(held.openings, mark.name):
        return 0, mark.reached  # those of another journal have their numbers
    return (held.end, mark.reached) if held.end < mark.reached else None


def _fill(journal: Path, start: int, end: int) -> None:
    """Let a reading of the clock have the numbers of missing messages: they are not given again."""
    with named(journal), contextlib.closing(connect(journal)) as database:
        database.executescript(JOURNAL_SCHEMA)
        with transaction(database):
            tick = row_of(start, end - start, TICK_SOURCE, time_in(database), b"")
            database.execute(INSERT, tick)


def _lacks_chunks(outbox: Path) -> bool:
    mark = _mark_of(outbox)
    if mark is None:
        return False
    with reading(outbox) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if not {"identity", "progress"} <= tables:
            return True
        row = database.execute("SELECT name FROM identity").fetchone()
        return row is None or row[0] != mark.name or published_chunks(database) < mark.reached


def _lacks(file: Path, problem: str, otherwise: str) -> DamagedDatabase:
    remedy = (
        f"was {file.name}-wal cut or removed, or {file.name} replaced by an older copy? "
        f"Restore it; if {JOURNAL}, {OUTBOX} and the checkpoint were restored from one backup, "
        f"remove {mark_file(file).name}; or start with {SKIP}: {otherwise}"
    )
    return DamagedDatabase(file, problem, remedy)
