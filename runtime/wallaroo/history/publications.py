"""Publications in a log: what was processed together, and the changes of state that came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.gateway.contents import tables_in
from wallaroo.gateway.entries import (
    MESSAGES,
    NOTED,
    OUTPUTS,
    PUBLISHED,
    block_in,
    changes_in,
    noted_in,
    outputs_in,
    piece_in,
    published_in,
)
from wallaroo.gateway.journal.blocks import gathered
from wallaroo.gateway.journal.openings import Opening
from wallaroo.gateway.log.records import SNAPSHOT, Record
from wallaroo.gateway.numbering import Renumbering
from wallaroo.history.records import beginning_with, names_from
from wallaroo.wire.records import Block, Outputs


class Numbered(NamedTuple):
    """Outputs of a sink that follow each other."""

    sink: str
    """Its name."""
    first: int
    """Number of the first one."""
    outputs: Outputs


class Renewal(NamedTuple):
    """That outputs were renumbered."""

    record: int
    """Number of the record that says so."""
    shifts: Mapping[str, int]
    """By the name of a sink, by how much the numbers became lower of what was not delivered."""


class Publication(NamedTuple):
    """Chunks that were published together."""

    record: int
    """Number of the record with which they were published."""
    run: str
    """The query whose state it has changed."""
    start: int
    """Offset of the first message."""
    end: int
    """Offset after the last one."""
    blocks: list[Block]
    """These messages, and readings of the clock; in the place of the index of a source is its
    name."""
    changes: list[bytes]
    """Records of the changed entities."""
    ends: Sequence[int]
    """Offset after the last message of each chunk."""
    outputs: list[Numbered]
    letters: int
    """How many messages became dead letters, or were dropped in their place."""
    late: int
    """How many came after their windows had closed."""


class Publications:
    """Reads publications from the records of a log.

    Args:
        records: The records, from the oldest one on.

    Attributes:
        begins: Offset from which on the log has all messages; None until a record is read.
        is_whole: Whether it has all messages that there ever were.
        openings: When it was opened to be written, up to the last record that was read.
        renewal: When outputs were last renumbered; None if they were not.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self._names = Renumbering()
        self._waiting: deque[Block] = deque()
        self._outputs: list[Numbered] = []
        """Outputs that the next publication makes valid."""
        self._end = 0
        self.begins: int | None = None
        self.is_whole = False
        self.openings: list[Opening] = []
        self.renewal: Renewal | None = None

    def __iter__(self) -> Iterator[Publication]:
        for record in self._records:
            self._names = names_from(record, self._names)
            if self.begins is None:
                self._begin(record)
            if record.kind == MESSAGES:
                self._waiting.append(self._names.block(block_in(record.payload)))
            elif record.kind == OUTPUTS:
                piece = self._names.piece(piece_in(record.payload)[0])
                self._add(Numbered(str(piece.sink), piece.number, outputs_in(record.payload, 0)))
            elif record.kind == NOTED:
                self._note(record.number, self._names.noted(noted_in(record.payload)))
            elif record.kind == PUBLISHED:
                yield self._published(record)

    def _add(self, added: Numbered) -> None:
        """Add outputs; they replace those of a publication that was damaged and is made again."""
        while any(one.sink == added.sink and one.first >= added.first for one in self._outputs):
            self._outputs.pop()
        self._outputs.append(added)

    def _note(self, number: int, values: Mapping[str, Any]) -> None:
        """Note what the record with this *number* changes."""
        if "openings" in values:
            self.openings = [Opening(*one) for one in values["openings"]]
        if "moved" in values:
            self._waiting.clear()  # they come again, under other offsets
        if values.keys() & {"openings", "outputs"}:
            # their publication was cut short, or they are dead letters of refused outputs
            self._outputs.clear()
        if "identity" in values:
            self.renewal = Renewal(number, values["shifts"])

    def _begin(self, record: Record) -> None:
        """Note where the log begins: each segment does so with the tables as of then."""
        self.begins = beginning_with(record)
        if record.kind == SNAPSHOT:
            tables = tables_in(bytes(record.payload))
            progress: dict[str, list[Any]] = tables["outbox"]["queries"]
            self._end = max((end for _, end, *_ in progress.values()), default=0)
            self.is_whole = record.number == 1 and not self.begins
            self.openings = [Opening(*one) for one in tables["journal"]["openings"]]

    def _published(self, record: Record) -> Publication:
        entry, start, blocks = published_in(record.payload), self._end, list[Block]()
        ends = entry.more.get("ends", (entry.end,))
        for end in ends:
            chunk: list[Block] = []
            while self._waiting and self._waiting[0].first < end:  # a chunk has whole blocks
                chunk.append(self._waiting.popleft())
            blocks += gathered(chunk)  # as they were handed out, for the times of arrival
        self._end, outputs, self._outputs = entry.end, self._outputs, []
        changes = [change for _, _, change in changes_in(record.payload)]
        return Publication(
            record.number,
            entry.more["query"],
            start,
            entry.end,
            blocks,
            changes,
            ends,
            outputs,
            entry.tally.set_aside,
            sum(entry.tally.late.values()),
        )
