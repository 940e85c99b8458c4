"""Contents of the gateway's log: the tables that its records add up to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.gateway.entries import (
    CARRIED,
    DELIVERED,
    MESSAGES,
    NOTED,
    OUTPUTS,
    PUBLISHED,
    RESUMED,
    Delivered,
    Messages,
    delivered_in,
    is_resumption,
    messages_in,
    noted_in,
    piece_in,
    published_head,
    published_in,
    without_changes,
)
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.log.records import SKIPPED, SNAPSHOT, Record
from wallaroo.gateway.numbering import Numbering, Renumbering
from wallaroo.gateway.outbox.outbox import Outbox


def pack_tables(tables: dict[str, Any]) -> bytes:
    """The payload of a snapshot."""
    return json.dumps(tables).encode()


def tables_in(payload: bytes) -> dict[str, Any]:
    """What `pack_tables` packed."""
    found: dict[str, Any] = json.loads(payload)
    return found


class Contents:
    """What the records of a log say, read from the first to the last.

    Where things are is noted of every record. The tables are those of the last snapshot, and what
    the records after it say is added to them.

    Args:
        journal: Takes what is said of messages.
        outbox: Takes what is said of outputs.
        numbering: What numbers of sources and sinks mean.
    """

    def __init__(self, journal: Journal, outbox: Outbox, numbering: Numbering) -> None:
        self._journal, self._outbox, self._numbering = journal, outbox, numbering
        self.tables: dict[str, Any] | None = None
        """The last snapshot; None if there was no record."""
        self.letters: list[tuple[int, int, list[Letter]]] = []
        """Dead letters, with address and number of their record."""
        self.lacks_resumption = False
        """Whether a record is missing that gave other numbers to what was there before."""
        self._resumed = self._resumed_then = 0
        """Such records so far, and before the last snapshot."""
        self._snapshot: tuple[bytes, Renumbering] | None = None
        self.has_records = self._has_skipped = False
        self._later: list[Messages | Delivered | tuple[bytes, Renumbering] | dict[str, Any]] = []

    def add(self, record: Record) -> None:
        """Read a record."""
        self.has_records = True
        kind, payload, numbers = record.kind, record.payload, self._numbering.last
        if kind == MESSAGES:
            messages = numbers.messages(messages_in(payload))
            self._journal.index(messages, record.address)
            self._later.append(messages)
        elif kind == PUBLISHED:
            self._add_published(record)
        elif kind == OUTPUTS:
            self._outbox.queues.index(numbers.piece(piece_in(payload)[0]), record.address)
        elif kind == DELIVERED:
            delivered = numbers.delivered(delivered_in(payload))
            self._outbox.queues.index_delivered(delivered)
            self._later.append(delivered)
        elif kind == CARRIED:
            piece, kept = piece_in(payload)
            self._outbox.queues.index_carried(numbers.piece(piece), record.address, kept=kept)
        elif kind == NOTED:
            self._add_noted(record, numbers.noted(noted_in(payload)))
        elif kind == SKIPPED:
            self._has_skipped = True
            self._journal.index_skipped(record.address)
        elif kind == SNAPSHOT:
            if self.tables is None or self._has_skipped:  # the record with the names may be lost
                tables = tables_in(bytes(payload))
                self._numbering.note(tables.get("names", {}), record.address)
                if self.tables is None:
                    self.tables = tables
                    self._resumed = _resumptions(tables)
            self._snapshot = bytes(payload), self._numbering.last
            self._resumed_then = self._resumed
            self._later.clear()

    def _add_published(self, record: Record) -> None:
        head = published_head(record.payload)
        self._outbox.index_published(head, record.address)
        if head.has_letters:
            more = published_in(record.payload).more
            self._add_letters(record, more["letters"])
        self._later.append((without_changes(record.payload), self._numbering.last))

    def _add_letters(self, record: Record, letters: Sequence[Any]) -> None:
        found = [Letter.from_json(one) for one in letters]
        self.letters.append((record.address, record.number, found))

    def _add_noted(self, record: Record, values: dict[str, Any]) -> None:
        if "openings" in values:
            self._numbering.note(values.get("names", {}), record.address)
        self._journal.index_noted(values)
        self._outbox.index_noted(values)
        self._resumed += is_resumption(values)
        if "delivered" in values:
            self._outbox.queues.index_delivered(Delivered(*values["delivered"]))
        if "letters" in values:
            self._add_letters(record, values["letters"])
        self._later.append(values)

    def finish(self) -> None:
        """Make the tables, once the last record is read."""
        if self._snapshot is not None:
            snapshot, numbers = self._snapshot
            self.tables = numbers.tables(tables_in(snapshot))
            self.lacks_resumption = _resumptions(self.tables) != self._resumed_then
            self._journal.restore(self.tables["journal"])
            self._outbox.restore(self.tables["outbox"])
        for entry in self._later:
            if isinstance(entry, Messages):
                self._journal.replay(entry)
            elif isinstance(entry, dict):
                self._journal.replay_noted(entry)
                self._outbox.replay_noted(entry)
                if "delivered" in entry:
                    delivered = Delivered(*entry["delivered"])
                    self._outbox.replay_delivered(delivered, entry["refused"])
            elif isinstance(entry, Delivered):
                self._outbox.replay_delivered(entry)
            else:
                payload, numbers = entry
                self._outbox.replay(numbers.published(published_in(payload)))
        self._later.clear()


def _resumptions(tables: dict[str, Any]) -> int:
    count: int = tables["outbox"]["counters"].get(RESUMED, 0)
    return count
