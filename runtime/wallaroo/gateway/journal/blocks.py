"""Blocks of accepted messages: their places in the log, and the newest of them in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from wallaroo.gateway.entries import MESSAGES, Messages, block_in, messages_in
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SKIPPED
from wallaroo.gateway.numbering import Numbering
from wallaroo.wire.records import MILLISECOND_NS, TICK_SOURCE, Block

_MEMORY_BYTES = 32 * 1024**2
"""Bytes of messages that wait in memory to be handed out; the log has the others."""
_BLOCK_BYTES = 200
"""What messages in memory take besides their bytes."""
_STEP_BYTES = 64 * 1024
"""Bytes of the log from one offset whose place is remembered to the next."""
_COUNTED_BYTES = 256 * 1024
"""Bytes of messages that are counted as one."""
_GATHER_NS = MILLISECOND_NS
"""Time within which messages of one source arrive as one block, for the first stage."""


class Blocks:
    """The messages from the first that is not consumed on; the caller holds a lock.

    Args:
        log: Where they are.
        numbering: What numbers of sources mean there.
    """

    def __init__(self, log: Log, numbering: Numbering) -> None:
        self._log, self._numbering = log, numbering
        self._firsts, self._addresses = array("Q"), array("Q")
        """Offsets of some records, and their addresses."""
        self._counted: deque[tuple[int, int]] = deque()
        """Offsets behind some messages, and bytes of those since the one before."""
        self.stored_bytes = 0
        """Bytes of all of them."""
        self._newest: deque[Block] = deque()
        self._newest_bytes = 0

    def add(self, entry: Messages, address: int) -> None:
        """Note the messages that the record at *address* has."""
        if not entry.messages:
            return
        if not self._addresses or address - self._addresses[-1] >= _STEP_BYTES:
            self._firsts.append(entry.first)
            self._addresses.append(address)
        self.stored_bytes += entry.size
        size = entry.size
        if self._counted and self._counted[-1][1] < _COUNTED_BYTES:
            size += self._counted.pop()[1]
        self._counted.append((entry.end, size))

    def add_skipped(self, address: int) -> None:
        """Note that damaged records were skipped, if they may have had the first messages."""
        if not self._addresses:
            self._firsts.append(0)
            self._addresses.append(address)

    def keep(self, block: Block) -> None:
        """Keep messages, which have just been added, until they are handed out."""
        if self._newest_bytes > _MEMORY_BYTES:
            self._newest.clear()
            self._newest_bytes = 0
        self._newest.append(block)
        self._newest_bytes += _size(block)

    def take(self, start: int, end: int, most_bytes: int) -> Sequence[Block]:
        """The messages from *start* on and before *end*, of about *most_bytes*.

        Raises:
            LookupError: They are there no more.
            DamagedLog: They are not as they were written.
        """
        newest, found, size = self._newest, list[Block](), 0
        while newest and newest[0].first < start:
            self._newest_bytes -= _size(newest.popleft())
        if not newest or newest[0].first > start:
            limit = min(end, newest[0].first) if newest else end
            for block in self.read(start, limit):
                found.append(block)
                size += len(block.data)
                if size >= most_bytes:
                    break
            return found
        while newest and size < most_bytes and newest[0].first < end:
            block = newest.popleft()
            self._newest_bytes -= _size(block)
            size += len(block.data)
            found.append(block)
        return found

    def bytes_beyond(self, start: int, end: int) -> int:
        """Bytes of the messages from *start* up to *end*, about."""
        if self._newest and self._newest[0].first <= start:
            return self._newest_bytes
        return self.stored_bytes if start < end else 0

    def read(self, start: int, end: int) -> Iterator[Block]:
        """The messages from *start* on and before *end*, from the log.

        Raises:
            LookupError: Some of them are there no more.
            DamagedLog: Some are not as they were written.
        """
        if start >= end:
            return
        place = bisect_right(self._firsts, start) - 1
        reached, skipped = start, False
        if place >= 0:
            for record in self._log.records(self._addresses[place]):
                if record.kind == SKIPPED:
                    skipped = True
                if record.kind != MESSAGES:
                    continue
                entry = messages_in(record.payload)
                if entry.end <= start or not entry.messages:
                    continue
                if entry.first > reached and skipped:  # a reading of the clock has their numbers
                    gap = min(entry.first, end) - reached
                    yield Block(reached, gap, TICK_SOURCE, entry.arrived_ns, b"")
                    reached += gap
                if entry.first > reached or reached >= end:
                    break
                reached = entry.end
                yield self._numbering.at(record.address).block(block_in(record.payload))
                if reached >= end:
                    return
        if reached < end:
            msg = f"messages {reached} to {end - 1} are not in the log: was it replaced?"
            raise LookupError(msg)

    def consume(self, offset: int) -> None:
        """Forget the messages before *offset*, as far as they are counted apart."""
        while self._counted and self._counted[0][0] <= offset:
            self.stored_bytes -= self._counted.popleft()[1]
        if not self._counted:  # the segment with the last of these addresses may go
            del self._firsts[:], self._addresses[:]
            return
        place = bisect_right(self._firsts, offset) - 1
        if place > 0:
            del self._firsts[:place], self._addresses[:place]

    @property
    def oldest(self) -> int | None:
        """Address from which on they are; None if there are none."""
        return self._addresses[0] if self._counted else None

    def forget_all(self) -> None:
        """Forget all of them."""
        del self._firsts[:], self._addresses[:]
        self._counted.clear()
        self._newest.clear()
        self.stored_bytes = self._newest_bytes = 0


def _size(block: Block) -> int:
    return len(block.data) + _BLOCK_BYTES


def gathered(blocks: Sequence[Block]) -> list[Block]:
    """*blocks*, those joined that follow each other and are of one source and a moment.

    Example:
        >>> one, two = Block(0, 1, 0, 999_999, b"a"), Block(1, 2, 0, 1_000_001, b"bc")
        >>> joined = gathered([one, two, Block(3, 1, 1, 1_000_002, b"d")])[0]
        >>> joined.messages, joined.arrived_ns, joined.data, joined.next_ms
        (3, 999999, b'abc', 1)
    """
    joined: list[tuple[Block, list[bytes]]] = []
    for block in blocks:
        if joined:
            before, parts = joined[-1]
            if before.source == block.source and block.arrived_ns - before.arrived_ns < _GATHER_NS:
                parts.append(block.data)
                count, next_ms = before.messages + block.messages, before.next_ms
                if (
                    next_ms is None
                    and block.arrived_ns // MILLISECOND_NS > before.arrived_ns // MILLISECOND_NS
                ):
                    next_ms = block.first
                joined[-1] = before._replace(messages=count, next_ms=next_ms), parts
                continue
        joined.append((block, [block.data]))
    return [
        block if len(parts) == 1 else block._replace(data=b"".join(parts))
        for block, parts in joined
    ]
