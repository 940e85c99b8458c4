"""Chunks in the outbox: the progress of queries, and where their changes of state are.

The changes of state that a chunk made lie in the log until Spark has them in its state store: they
are part of the record that publishes the chunk's outputs, so that both are there or none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.gateway.entries import Published, changes_in, query_sum
from wallaroo.gateway.log.log import Log
from wallaroo.wire.records import Outputs, Tally

_PIECE_BYTES = 1024 * 1024
"""Bytes of outputs that are delivered together: what a gateway that dies may have to send again."""


class QueryProgress(NamedTuple):
    """How far the published chunks of a query go."""

    chunk: int
    """Number of the last chunk."""
    end: int
    """Offset after its last message."""


class FinishedChunk(NamedTuple):
    """A chunk that all processes have reported."""

    number: int
    """Number of the chunk."""
    end: int
    """Offset after its last message."""
    outputs: Sequence[Outputs]
    """Its outputs."""
    tally: Tally
    """What the processes reported besides."""
    changes: Sequence[tuple[int, bytes]]
    """By partition, the record of what changed."""
    began: float = 0.0
    """When it was handed out, by the clock that does not run backwards."""

    @property
    def size(self) -> int:
        """Bytes of its outputs and of what changed, which are in the log until its epoch ends."""
        made = sum(len(outputs.data) for outputs in self.outputs)
        return made + sum(len(record) for _, record in self.changes)


class ChunkTable:
    """What chunks have left besides outputs; the caller holds a lock.

    Args:
        log: Where the changes are.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.progress: dict[str, QueryProgress] = {}
        """How far each query is, by its name; the last one is at the end."""
        self.forgotten: dict[str, int] = {}
        """Number of the last chunk whose changes are forgotten, by query."""
        self.changed: dict[str, int] = {}
        """Number of the last chunk of the last publication with changes, by query."""
        self._chunks, self._addresses = array("Q"), array("Q")
        """Numbers of the last chunks of publications with changes, and their addresses."""
        self._before = array("Q")
        """Number of the last chunk of the publication with changes before each of these."""
        self._changed_by = 0
        """`query_sum` of the query that they are of."""

    def restore(self, tables: Mapping[str, Sequence[int]]) -> None:
        """Begin with *tables*, as `tables` returned them."""
        for query, (chunk, end, forgotten, changed) in tables.items():
            self.progress[query] = QueryProgress(chunk, end)
            self.changed[query] = changed
            if forgotten >= 0:
                self.forgotten[query] = forgotten

    def tables(self) -> dict[str, Any]:
        """How far each query is, as plain JSON values."""
        return {
            query: [*progress, self.forgotten.get(query, -1), self.changed.get(query, 0)]
            for query, progress in self.progress.items()
        }

    def index(self, query: int, chunk: int, before: int, address: int) -> None:
        """Note where changes are.

        Args:
            query: `query_sum` of their query.
            chunk: Number of the last chunk of their publication.
            before: Number of the last chunk of the publication with changes before; 0 for none.
            address: Address of that.
        """
        if query != self._changed_by:
            self._changed_by = query
            self.forget_all()
        self._chunks.append(chunk)
        self._before.append(before)
        self._addresses.append(address)

    def note(self, entry: Published) -> None:
        """Note a publication."""
        query = entry.more["query"]
        self.progress.pop(query, None)  # the last one is at the end
        self.progress[query] = QueryProgress(entry.chunk, entry.end)
        if entry.more["changes"]:
            self.changed[query] = entry.chunk

    def changes(self, query: str, after: int, partition: int | None = None) -> Iterator[bytes]:
        """What the chunks of *query* after number *after* changed, in order.

        Args:
            query: Name of the query.
            after: Number of a chunk.
            partition: The partition; None for all.

        Raises:
            DamagedLog: They are not as they were written.
        """
        if query_sum(query) != self._changed_by:
            return
        after = max(after, self.forgotten.get(query, 0))
        for address in self._addresses[bisect_right(self._chunks, after) :]:
            for chunk, of, record in changes_in(self._log.read(address).payload):
                if chunk > after and partition in {None, of}:
                    yield record

    def forget(self, query: str, until: int) -> None:
        """Forget what the chunks of *query* up to number *until* changed."""
        self.forgotten[query] = until

    def release(self, query: str, until: int) -> None:
        """Need these changes no more, as it is on disk that they are forgotten."""
        if query_sum(query) == self._changed_by:
            place = bisect_right(self._chunks, until)
            del self._chunks[:place], self._addresses[:place], self._before[:place]

    def missing(self) -> tuple[int, int] | None:
        """The chunks of the last query, from one to another, whose changes are not there.

        None if all are there that are not forgotten.
        """
        query = next(reversed(self.progress), "")
        is_known = query_sum(query) == self._changed_by
        known = dict(zip(self._chunks, self._before, strict=True)) if is_known else {}
        last, forgotten = self.changed.get(query, 0), self.forgotten.get(query, 0)
        while last > forgotten:
            if last not in known:
                before = max((chunk for chunk in known if chunk < last), default=0)
                return max(before, forgotten) + 1, last
            last = known[last]
        return None

    def renew(self, query: str, chunk: int, end: int) -> None:
        """Let *query* be as far as this, with no changes since."""
        self.progress.pop(query, None)
        self.progress[query] = QueryProgress(chunk, end)
        self.forgotten.pop(query, None)
        self.changed.pop(query, None)

    def forget_all(self) -> None:
        """Forget all changes."""
        del self._chunks[:], self._addresses[:], self._before[:]

    @property
    def needed_from(self) -> int | None:
        """Address in the log from which on changes are needed; None if none are."""
        return self._addresses[0] if self._addresses else None


def joined(every: Iterable[Outputs]) -> Iterator[Outputs]:
    """*every* output, those for one sink in pieces of moderate size, in order."""
    gathered: dict[int, list[Outputs]] = {}
    sizes: dict[int, int] = {}
    for outputs in every:
        size = sizes.get(outputs.sink, 0)
        if size and size + len(outputs.data) > _PIECE_BYTES:
            yield _piece(gathered.pop(outputs.sink))
            size = 0
        gathered.setdefault(outputs.sink, []).append(outputs)
        sizes[outputs.sink] = size + len(outputs.data)
    for parts in gathered.values():
        yield _piece(parts)


def _piece(parts: Sequence[Outputs]) -> Outputs:
    if len(parts) == 1:
        return parts[0]
    lengths = b"".join(part.lengths for part in parts)
    return Outputs(parts[0].sink, lengths, b"".join(part.data for part in parts))
