"""Publications in a log: what was processed together, and the changes of state that came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
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
from wallaroo.gateway.log.records import SNAPSHOT, Record
from wallaroo.gateway.numbering import Renumbering
from wallaroo.history.records import names_from
from wallaroo.wire.records import Block, Outputs


class Publication(NamedTuple):
    """Chunks that were published together."""

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
    outputs: list[tuple[str, Outputs]]
    """Outputs by the name of their sink."""
    letters: int
    """How many messages became dead letters, or were dropped in their place."""


class Publications:
    """Reads publications from the records of a log.

    Args:
        records: The records, from the oldest one on.

    Attributes:
        begins: Offset from which on the log has all messages; None until a record is read.
        is_whole: Whether it has all messages that there ever were.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self._names = Renumbering()
        self._waiting: deque[Block] = deque()
        self._outputs: list[tuple[str, Outputs]] = []
        self._end = 0
        self.begins: int | None = None
        self.is_whole = False

    def __iter__(self) -> Iterator[Publication]:
        for record in self._records:
            self._names = names_from(record, self._names)
            if self.begins is None:
                self._begin(record)
            if record.kind == MESSAGES:
                self._waiting.append(self._names.block(block_in(record.payload)))
            elif record.kind == OUTPUTS:
                piece = self._names.piece(piece_in(record.payload)[0])
                self._outputs.append((str(piece.sink), outputs_in(record.payload, 0)))
            elif record.kind == NOTED and "moved" in noted_in(record.payload):
                self._waiting.clear()  # they come again, under other offsets
            elif record.kind == PUBLISHED:
                yield self._published(record)

    def _begin(self, record: Record) -> None:
        """Note where the log begins: each segment does so with the tables as of then."""
        self.begins = 0
        if record.kind == SNAPSHOT:
            tables = tables_in(bytes(record.payload))
            self.begins = tables["journal"]["end"]
            progress: dict[str, list[Any]] = tables["outbox"]["queries"]
            self._end = max((end for _, end, *_ in progress.values()), default=0)
            self.is_whole = record.number == 1 and not self.begins

    def _published(self, record: Record) -> Publication:
        entry, start, blocks = published_in(record.payload), self._end, list[Block]()
        for end in entry.more.get("ends", (entry.end,)):
            chunk: list[Block] = []
            while self._waiting and self._waiting[0].first < end:  # a chunk has whole blocks
                chunk.append(self._waiting.popleft())
            blocks += gathered(chunk)  # as they were handed out, for the times of arrival
        self._end, outputs, self._outputs = entry.end, self._outputs, []
        changes = [change for _, _, change in changes_in(record.payload)]
        letters = entry.tally.set_aside
        return Publication(entry.more["query"], start, entry.end, blocks, changes, outputs, letters)
