"""Resuming without what a journal, an outbox or the end of a checkpoint had.

The request is written next to the journal, and carried out when the gateway next starts, before it
opens journal and outbox: completely, however often it is tried.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import uuid
from pathlib import Path

import structlog

from wallaroo.errors import DamagedFile
from wallaroo.gateway.consistency.agreement import ACCEPT, JOURNAL, OUTBOX, Holdings, read_held
from wallaroo.gateway.database import connect, transaction
from wallaroo.gateway.dead_letters.store import SCHEMA as LETTERS_SCHEMA
from wallaroo.gateway.journal.block_rows import renumber_sums
from wallaroo.gateway.journal.journal import SCHEMA as JOURNAL_SCHEMA
from wallaroo.gateway.journal.openings import SCHEMA as OPENINGS_SCHEMA
from wallaroo.gateway.journal.openings import Opening, is_known, write_openings
from wallaroo.gateway.journal.stream_positions import REPLAYS
from wallaroo.gateway.journal.stream_positions import SCHEMA as MARKS_SCHEMA
from wallaroo.gateway.outbox.outbox import SCHEMA as OUTBOX_SCHEMA
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.sealed_files import sealed, unsealed
from wallaroo.wire.checkpoint_progress import CheckpointProgress

_FILE = "accept.json"

log = structlog.get_logger("wallaroo.gateway")


def ask_to_accept(directory: Path, progress: CheckpointProgress) -> None:
    """Let the gateway of *directory* resume from the *progress* of a checkpoint when it starts."""
    write_durably(directory / _FILE, sealed(dataclasses.asdict(progress)))


def is_asked(directory: Path) -> bool:
    """Whether the gateway of *directory* is to resume from the progress of a checkpoint."""
    return (directory / _FILE).exists()


def accept_if_asked(directory: Path) -> None:
    """Carry out the request in *directory*; no other process may have journal or outbox open.

    Raises:
        DamagedFile: The request was changed.
    """
    file = directory / _FILE
    if not file.exists():
        return
    try:
        progress = CheckpointProgress(**unsealed(file.read_text()))
    except (ValueError, TypeError) as error:
        msg = f"{file} is damaged: {error}; remove it, and start with {ACCEPT} again"
        raise DamagedFile(msg) from error
    held = read_held(directory)
    with contextlib.closing(connect(directory / JOURNAL)) as journal:
        for schema in (JOURNAL_SCHEMA, MARKS_SCHEMA, OPENINGS_SCHEMA):
            journal.executescript(schema)
        departs = held.departure(progress)
        if departs is not None:
            _move(journal, progress, held, departs)
        (replays,) = journal.execute(
            "SELECT coalesce(max(last), 0) FROM stream WHERE name = ?", (REPLAYS,)
        ).fetchone()
    if held.is_behind(progress) or held.is_ahead(progress):
        with contextlib.closing(connect(directory / OUTBOX)) as outbox:
            outbox.executescript(OUTBOX_SCHEMA + LETTERS_SCHEMA)
            _renew(outbox, progress, replays)
    file.unlink()


def _move(
    journal: sqlite3.Connection, progress: CheckpointProgress, held: Holdings, departs: int
) -> None:
    """Renumber the messages that the checkpoint does not know, from its offset on."""
    reached = held.reached(progress)
    known = is_known(held.openings, progress.opening)
    strange = departs if known else held.processed
    done = min(reached, strange) if known else strange
    with transaction(journal):
        journal.execute("DELETE FROM chunk WHERE first < ?", (done,))
        # by way of negative numbers: others may still have the new ones
        shift = reached - strange
        moved = journal.execute(
            "UPDATE chunk SET first = -1 - (first + ?) WHERE first >= ?", (shift, strange)
        ).rowcount
        journal.execute("UPDATE chunk SET first = -1 - first WHERE first < 0")
        renumber_sums(journal)
        journal.executemany(
            "INSERT OR REPLACE INTO position VALUES (?, ?)",
            [("trimmed", reached), ("processed", reached)],
        )
        write_openings(journal, [Opening(0, progress.opening)] if progress.opening else [])
    log.warning("journal accepted", resumes_at=reached, chunks_renumbered=moved)


def _renew(outbox: sqlite3.Connection, progress: CheckpointProgress, replays: int) -> None:
    """Let the outbox take the chunk after the checkpoint's, and start a new numbering of outputs.

    Numbers of the old one may have been used for outputs that are lost, or that are produced again
    differently; the same holds for replays.
    """
    with transaction(outbox):
        place = (progress.run, progress.chunk, progress.end)
        outbox.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", place)
        outbox.execute("DELETE FROM forgotten WHERE run = ?", (progress.run,))
        outbox.execute("DELETE FROM change WHERE run = ? AND chunk > ?", place[:2])
        outbox.execute("DELETE FROM identity")
        outbox.execute("INSERT INTO identity VALUES (?)", (uuid.uuid4().hex,))
        for sink, last in outbox.execute("SELECT sink, last FROM sequence").fetchall():
            (first,) = outbox.execute(
                "SELECT coalesce(min(number), ?) FROM published WHERE sink = ?", (last + 1, sink)
            ).fetchone()
            outbox.execute(
                "UPDATE published SET number = number - ? WHERE sink = ?", (first - 1, sink)
            )
            outbox.execute("UPDATE sequence SET last = last - ? WHERE sink = ?", (first - 1, sink))
        outbox.execute("DELETE FROM delivered")
        outbox.execute(
            "INSERT INTO letter_total VALUES ('replays', ?) "
            "ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
            (replays,),
        )
    log.warning("outbox accepted", after_chunk=progress.chunk)
