"""Looks at all of journal and outbox before a gateway opens them, and sets damage aside if asked.

A damaged piece is then found before anything is accepted, and not when its turn comes. What is set
aside becomes a dead letter with its bytes, which cannot be replayed; a reading of the clock takes
the place of messages, so that offsets have no gap. Changes of state cannot be done without.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from wallaroo.gateway.consistency.agreement import JOURNAL, OUTBOX
from wallaroo.gateway.database import check_structure, connect, named, reading, transaction
from wallaroo.gateway.dead_letters.store import DeadLetterLimits, DeadLetterStore
from wallaroo.gateway.journal.block_rows import COLUMNS, INSERT, Row, damaged_range, row_of
from wallaroo.gateway.journal.positions import time_in
from wallaroo.gateway.outbox.chunks import CHANGE, check_change
from wallaroo.gateway.outbox.queues import damaged_outputs, outputs_sum
from wallaroo.gateway.row_sums import check_rows
from wallaroo.system.printable import printable
from wallaroo.wire.records import TICK_SOURCE, FailedMessage, Outputs

_SHOWN_BYTES = 60
_MOST_MESSAGES = 1 << 24
"""More than a chunk ever has."""

log = structlog.get_logger("wallaroo.gateway")


class _Range(NamedTuple):
    """Messages of the journal whose chunks are damaged or missing."""

    start: int
    end: int
    arrived_ns: int
    """When the message before arrived."""
    source: int
    """Source that the first chunk names."""
    keys: list[int]
    """The chunks, by what they call their first message; none if they are missing."""
    data: bytes
    """Their bytes."""


class _Piece(NamedTuple):
    """Damaged outputs."""

    position: int
    piece: int
    sink: int
    outputs: int
    number: int
    data: bytes


def check_for_damage(directory: Path, sources: Sequence[str], *, skip: bool = False) -> None:
    """Look at all of journal and outbox in *directory*, which no process may have open.

    Args:
        directory: The directory.
        sources: Names of the application's sources.
        skip: Whether to set damaged messages and outputs aside.

    Raises:
        DamagedDatabase: Something is not as it was written, and cannot or may not be set aside.
    """
    for name in (JOURNAL, OUTBOX):
        check_structure(directory / name)
    outbox = directory / OUTBOX
    with reading(outbox) as database:
        check_rows(database, outbox)
        _check_changes(database)
        pieces = list(_damaged_pieces(database))
    with reading(directory / JOURNAL) as database:
        check_rows(database, directory / JOURNAL)
    ranges = _damaged_ranges(directory / JOURNAL)
    if not (pieces or ranges):
        return
    if not skip and ranges:
        first, missing = ranges[0], not ranges[0].keys
        others = len(ranges) - 1
        raise damaged_range(directory / JOURNAL, *first[:2], others, missing=missing)
    if not skip:
        raise damaged_outputs(outbox, pieces[0].sink, pieces[0].number)
    _set_outputs_aside(outbox, pieces)
    _set_messages_aside(directory, ranges, sources)


def _tables(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def _check_changes(database: sqlite3.Connection) -> None:
    if "change" in _tables(database):
        for row in database.execute(f"SELECT {CHANGE} FROM change"):
            check_change(database, row)


def _damaged_pieces(database: sqlite3.Connection) -> Iterator[_Piece]:
    if not {"published", "piece"} <= _tables(database):
        return
    for position, piece, sink, outputs, number, *content, total in database.execute(
        "SELECT position, piece, published.sink, count, number, piece.sink, lengths, data, sum "
        "FROM published LEFT JOIN piece ON piece.id = piece ORDER BY position"
    ):
        if total is None:  # they are missing
            yield _Piece(position, piece, sink, outputs, number, b"")
            continue
        found = Outputs(*content)
        if found.sink != sink or outputs_sum(found) != total:
            yield _Piece(position, piece, sink, outputs, number, found.data)


def _damaged_ranges(file: Path) -> list[_Range]:
    """The damaged messages of a journal: all between two intact chunks, if a chunk between is."""
    found: list[_Range] = []
    with reading(file) as journal:
        if not {"chunk", "position"} <= _tables(journal):
            return []
        row = journal.execute("SELECT value FROM position WHERE name = 'trimmed'").fetchone()
        reached, arrived_ns = row[0] if row else 0, 0
        open_: _Range | None = None
        for values in journal.execute(f"SELECT {COLUMNS} FROM chunk ORDER BY first"):
            chunk = Row(*values)
            if chunk.is_intact():
                if open_ is not None:
                    found.append(open_._replace(end=chunk.first))
                elif reached < chunk.first:
                    at_ns = chunk.arrived_ns
                    found.append(_Range(reached, chunk.first, at_ns, chunk.source, [], b""))
                reached, arrived_ns, open_ = chunk.first + chunk.messages, chunk.arrived_ns, None
                continue
            if open_ is None:
                at_ns = arrived_ns or time_in(journal)
                open_ = _Range(reached, reached, at_ns, chunk.source, [], b"")
            # at the end of the journal, what it says of its size is all that is known; a gap of too
            # many numbers does no harm, but numbers may not be given again
            trusted = 0 < chunk.messages <= _MOST_MESSAGES
            size = chunk.messages if trusted else max(len(chunk.data), 1)
            open_ = open_._replace(
                end=open_.end + size,
                keys=[*open_.keys, chunk.first],
                data=open_.data + bytes(chunk.data),
            )
        if open_ is not None:
            found.append(open_)
    return found


def _set_messages_aside(directory: Path, ranges: Sequence[_Range], sources: Sequence[str]) -> None:
    """Make dead letters of damaged messages, and put a reading of the clock in their place."""
    file = directory / JOURNAL
    for one in ranges:
        source = one.source if 0 <= one.source < len(sources) else 0
        place = f"messages {one.start} to {one.end - 1}"
        where, name = f"{JOURNAL}: {place}", sources[source]
        error = "it does not match its checksum" if one.keys else "it is missing from the file"
        keep_letter(directory / OUTBOX, source, name, where, one.data, error)
        with named(file), contextlib.closing(connect(file)) as journal, transaction(journal):
            journal.executemany("DELETE FROM chunk WHERE first = ?", [(key,) for key in one.keys])
            tick = row_of(one.start, one.end - one.start, TICK_SOURCE, one.arrived_ns, b"")
            journal.execute(INSERT, tick)
        log.warning("damaged messages set aside", file=str(file), start=one.start, end=one.end)


def _set_outputs_aside(file: Path, pieces: Sequence[_Piece]) -> None:
    """Make dead letters of damaged outputs, which count as delivered."""
    for one in pieces:
        place = f"{OUTBOX}: sink {one.sink}, {one.outputs} outputs from number {one.number} on"
        keep_letter(file, 0, "", place, one.data)
        with contextlib.closing(connect(file)) as outbox, transaction(outbox):
            outbox.execute("DELETE FROM published WHERE position = ?", (one.position,))
            outbox.execute("DELETE FROM piece WHERE id = ?", (one.piece,))
            outbox.execute(
                "INSERT INTO delivered VALUES (?, ?) "
                "ON CONFLICT (sink) DO UPDATE SET count = count + excluded.count",
                (one.sink, one.outputs),
            )
        log.warning(
            "damaged outputs set aside",
            file=str(file),
            sink=one.sink,
            number=one.number,
            outputs=one.outputs,
        )


def keep_letter(
    outbox: Path,
    source: int,
    name: str,
    place: str,
    data: bytes,
    error: str = "it does not match its checksum",
) -> None:
    """Keep what is left of *place* as a dead letter, once.

    Args:
        outbox: File of the outbox.
        source: Number of the source, about.
        name: Its name.
        place: What is damaged.
        data: Its bytes.
        error: What is wrong with it.
    """
    with contextlib.closing(connect(outbox)) as database:
        store = DeadLetterStore(database, DeadLetterLimits())
        with transaction(database):
            known = database.execute("SELECT 1 FROM letter WHERE place = ?", (place,)).fetchone()
            if known is None:
                shown = printable(data[:_SHOWN_BYTES].decode("utf-8", "replace"))
                letter = FailedMessage("", "", place, error, shown)
                store.keep_damaged(source, name, letter, data)
