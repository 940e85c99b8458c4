"""The unprocessed messages of each source: its lead over the engine."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator

from wallaroo.gateway.entries import Messages
from wallaroo.wire.records import Block

_STEP_BYTES = 256 * 1024
"""Bytes of a source that are counted as one: so few numbers say how far a long backlog reaches."""


class Ahead:
    """Counts messages from when they are handed in until they are processed.

    A part of a step that is processed counts until all of it is.

    Example:
        >>> ahead = Ahead()
        >>> for first in range(4):
        ...     ahead.stored(Messages(first % 2, 1, first, 0, 100_000, {}))
        >>> ahead.begin(0, lambda start, end: iter(()))
        Counter({0: 2, 1: 2})
        >>> ahead.processed(2), ahead.of(0)
        (False, 200000)
        >>> ahead.processed(4), ahead.of(0)
        (True, 0)
    """

    def __init__(self) -> None:
        self._bytes: Counter[int] = Counter()
        self._steps: defaultdict[int, deque[tuple[int, int, int, int]]] = defaultdict(deque)
        """By source: offset of the first message, offset behind the last one, number, bytes."""

    def of(self, source: int) -> int:
        """Bytes of *source* that are not processed."""
        return self._bytes[source]

    def handed_in(self, source: int, size: int) -> None:
        """Note that *size* bytes have come, and are not on disk yet."""
        self._bytes[source] += size

    def stored(self, entry: Messages) -> None:
        """Note that the messages of a record, which come in order, are on disk."""
        steps = self._steps[entry.source]
        first, count, size = entry.first, entry.messages, entry.size
        if steps and steps[-1][3] < _STEP_BYTES:
            first, _, before, bytes_ = steps.pop()
            count, size = count + before, size + bytes_
        steps.append((first, entry.end, count, size))

    def begin(self, offset: int, read: Callable[[int, int], Iterator[Block]]) -> Counter[int]:
        """Let exactly what is stored from *offset* on be unprocessed; its messages by source.

        Args:
            offset: The offset.
            read: Returns the messages from one offset to another.
        """
        self.processed(offset)
        crossing = {
            source: steps.popleft()
            for source, steps in self._steps.items()
            if steps and steps[0][0] < offset
        }
        last = max((end for _, end, *_ in crossing.values()), default=offset)
        rest = {source: (end, 0, 0) for source, (_, end, *_) in crossing.items()}
        for block in read(offset, last):
            end, count, size = rest.get(block.source, (0, 0, 0))
            if block.first < end:
                rest[block.source] = end, count + block.messages, size + len(block.data)
        for source, (end, count, size) in rest.items():
            if count:
                self._steps[source].appendleft((offset, end, count, size))
        all_steps = self._steps.items()
        self._bytes = Counter(
            {source: sum(step[3] for step in steps) for source, steps in all_steps}
        )
        return Counter({source: sum(step[2] for step in steps) for source, steps in all_steps})

    def processed(self, end: int) -> bool:
        """Note that all before offset *end* is processed; returns whether that makes room."""
        less = False
        for source, steps in self._steps.items():
            while steps and steps[0][1] <= end:
                self._bytes[source] -= steps.popleft()[3]
                less = True
        return less

    def forget_all(self) -> None:
        """Forget all of them."""
        self._bytes.clear()
        self._steps.clear()
