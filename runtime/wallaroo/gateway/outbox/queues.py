"""Published outputs by sink: numbered, in order, until the sink's receiver has them."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wallaroo.gateway.entries import CARRIED, Delivered, Piece, outputs_in, pack_outputs
from wallaroo.gateway.log.log import Log
from wallaroo.wire.records import Outputs

_MEMORY_BYTES = 64 * 1024**2
"""Bytes of outputs that wait in memory; the log has the others."""
_KEPT_BYTES = 128
"""What kept outputs count besides their bytes, so that there is a bound on their number, too."""


class Delivery(NamedTuple):
    """Published outputs, ready to send."""

    position: int
    """Number of the last of them among all outputs that the sink ever had."""
    outputs: Outputs
    number: int = 1
    """Number of the first of them, from 1 on."""

    @property
    def last(self) -> int:
        """Number of the last of them."""
        return self.number + self.outputs.amount - 1


@dataclass(slots=True)
class Waiting:
    """Outputs of a queue."""

    piece: Piece
    address: int
    outputs: Outputs | None
    """The outputs, if they are in memory."""


@dataclass
class _Queue:
    """What there is of one sink."""

    last: int = 0
    """Number of the last output that was published."""
    delivered: int = 0
    """Number of the last that its receiver has, and every one before."""
    sent: int = 0
    """The same, in mid delivery."""
    numbered: bool | None = None
    """Whether its outputs go out with their numbers; None if that was never noted."""
    waiting: deque[Waiting] = field(default_factory=deque)
    kept: deque[Waiting] = field(default_factory=deque)
    kept_bytes: int = 0
    found: int = 0
    """Number of the last output of a publication that was found on disk."""


class OutputQueues:
    """A queue of outputs for each sink; the caller holds a lock.

    Args:
        log: Where the outputs are.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._queues: dict[int, _Queue] = {}
        self._unpublished: list[Waiting] = []
        """Outputs of a publication that has not been read to its end."""
        self.bytes = self.count = 0
        """Bytes and number of all outputs that wait."""
        self._memory_bytes = 0

    def _of(self, sink: int) -> _Queue:
        queue = self._queues.get(sink)
        if queue is None:
            queue = self._queues[sink] = _Queue()
        return queue

    # --- recovery --------------------------------------------------------------------------------

    def restore(self, tables: Mapping[str, Sequence[Any]]) -> None:
        """Begin with *tables*, as `tables` returned them; what `index` found is kept."""
        for sink, values in tables.items():
            queue = self._of(int(sink))
            queue.last, queue.delivered, queue.sent, queue.numbered = values

    def tables(self) -> dict[str, Any]:
        """What is to be known of each sink, as plain JSON values."""
        return {
            str(sink): [queue.last, queue.delivered, queue.sent, queue.numbered]
            for sink, queue in self._queues.items()
        }

    def index(self, piece: Piece, address: int) -> None:
        """Note outputs that were found, which belong to the next publication."""
        self._unpublished.append(Waiting(piece, address, None))

    def index_published(self) -> None:
        """Note a publication that was found: the outputs before it are valid."""
        for found in self._unpublished:
            queue = self._of(found.piece.sink)
            # some may be of a publication that a kill cut short
            while queue.waiting and queue.waiting[-1].piece.number >= found.piece.number:
                queue.waiting.pop()
            queue.waiting.append(found)
            queue.found = max(queue.found, found.piece.last)
        self._unpublished.clear()

    def forget_unpublished(self) -> None:
        """Forget the outputs of a publication that a kill has cut short."""
        self._unpublished.clear()

    def index_delivered(self, entry: Delivered) -> None:
        """Note that outputs which were found are delivered."""
        queue = self._of(entry.sink)
        while queue.waiting and queue.waiting[0].piece.last <= entry.number:
            one = queue.waiting.popleft()
            if entry.keep_bytes:
                queue.kept.append(one)
                queue.kept_bytes += one.piece.size + _KEPT_BYTES
        self._trim_kept(queue, entry.keep_bytes)

    def index_carried(self, piece: Piece, address: int, *, kept: bool) -> None:
        """Note that outputs were moved to another place."""
        queue = self._of(piece.sink)
        for among in (queue.waiting, queue.kept):
            for known in among:
                if known.piece.number == piece.number:
                    known.address = address
                    return
        among = queue.kept if kept else queue.waiting
        if kept:
            queue.kept_bytes += piece.size + _KEPT_BYTES
        ordered = sorted([*among, Waiting(piece, address, None)], key=lambda one: one.piece.number)
        among.clear()
        among.extend(ordered)

    def begin(self) -> None:
        """Forget what was found and is delivered; count what waits.

        Before what waits, everything is delivered, even if that was not written to a full disk, or
        was damaged.
        """
        self._unpublished.clear()
        for queue in self._queues.values():
            queue.last = max(queue.last, queue.found)  # a damaged publication may have been skipped
            while queue.waiting and queue.waiting[0].piece.last <= queue.delivered:
                queue.waiting.popleft()
            first = queue.waiting[0].piece.number if queue.waiting else queue.last + 1
            queue.delivered = max(queue.delivered, first - 1)
            self.bytes += sum(one.piece.size for one in queue.waiting)
            self.count += sum(one.piece.outputs for one in queue.waiting)

    # --- outputs come in, and go out -------------------------------------------------------------

    def number(self, outputs: Outputs, before: int) -> Piece:
        """Give *outputs* their numbers, after those of as many as there are in all and *before*."""
        first = self._of(outputs.sink).last + before + 1
        return Piece(outputs.sink, first, outputs.amount, len(outputs.data))

    def note_published(self, counts: Mapping[str, int]) -> None:
        """Note how many outputs a publication has for each sink, once its record is appended."""
        for sink, count in counts.items():
            self._of(int(sink)).last += count

    def add(self, piece: Piece, address: int, outputs: Outputs) -> None:
        """Let outputs, which are on disk, be delivered."""
        if piece.last <= self._of(piece.sink).delivered:
            return  # they were, and are made again as their publication was damaged
        self.bytes += piece.size
        self.count += piece.outputs
        in_memory = self._memory_bytes + piece.size <= _MEMORY_BYTES
        if in_memory:
            self._memory_bytes += piece.size
        self._of(piece.sink).waiting.append(Waiting(piece, address, outputs if in_memory else None))

    def first(self, sink: int, after: int) -> Waiting | None:
        """The first outputs of *sink* after position *after*."""
        waiting = self._of(sink).waiting
        place = bisect_right(waiting, after, key=lambda one: one.piece.last)
        return None if place == len(waiting) else waiting[place]

    def whole(self, sink: int, position: int) -> int:
        """Number of the last output up to *position* that ends what is delivered together."""
        queue = self._of(sink)
        reached = queue.delivered
        for one in queue.waiting:
            if one.piece.last > position:
                break
            reached = one.piece.last
        return reached

    def remove(self, entry: Delivered) -> int:
        """Remove the outputs that a receiver has; returns how many more it has than before."""
        queue = self._of(entry.sink)
        while queue.waiting and queue.waiting[0].piece.last <= entry.number:
            one = queue.waiting.popleft()
            if one.outputs is not None:
                self._memory_bytes -= one.piece.size
                one.outputs = None
            self.count -= one.piece.outputs
            self.bytes -= one.piece.size
            if entry.keep_bytes:
                queue.kept.append(one)
                queue.kept_bytes += one.piece.size + _KEPT_BYTES
        return self.note_delivered(entry)

    def note_delivered(self, entry: Delivered) -> int:
        """The same, where the outputs are not in memory."""
        queue = self._of(entry.sink)
        before, queue.delivered = queue.delivered, max(queue.delivered, entry.number)
        self._trim_kept(queue, entry.keep_bytes)
        return queue.delivered - before

    def _trim_kept(self, queue: _Queue, most_bytes: int) -> None:
        while queue.kept and queue.kept_bytes > most_bytes:
            queue.kept_bytes -= queue.kept.popleft().piece.size + _KEPT_BYTES

    def kept(self, sink: int) -> Iterator[Delivery]:
        """What `remove` has kept of *sink*, in order.

        Raises:
            DamagedLog: Something is not as it was written.
        """
        for one in self._of(sink).kept:
            yield Delivery(one.piece.last, self._read(one), one.piece.number)

    def _read(self, one: Waiting) -> Outputs:
        return outputs_in(self._log.read(one.address).payload, one.piece.sink)

    # --- what is known ---------------------------------------------------------------------------

    def delivered_to(self, sink: int) -> int:
        """Number of the last output that was removed, and every one before."""
        return self._of(sink).delivered

    def published_to(self, sink: int) -> int:
        """Number of the last output that *sink* ever had; 0 if there was none."""
        return self._of(sink).last

    def note_sent(self, sink: int, number: int) -> None:
        """Note that the receiver of *sink* has outputs up to *number*, in mid delivery."""
        self._of(sink).sent = number

    def sent_to(self, sink: int) -> int:
        """Number of the last output that the receiver of *sink* is known to have; 0 for none."""
        return max(self._of(sink).sent, self._of(sink).delivered)

    def note_numbered(self, sink: int, *, numbered: bool) -> bool | None:
        """Remember whether *sink* is numbered; what was remembered before, None if nothing."""
        before, self._of(sink).numbered = self._of(sink).numbered, numbered
        return before

    def undelivered(self, sink: int) -> int:
        """Outputs of *sink* that wait."""
        return sum(one.piece.outputs for one in self._of(sink).waiting)

    def shifts(self) -> dict[str, int]:
        """By how much to lower all numbers of each sink, so that the first output has number 1."""
        return {
            str(sink): (queue.waiting[0].piece.number if queue.waiting else queue.last + 1) - 1
            for sink, queue in self._queues.items()
        }

    def index_renumbered(self, shifts: Mapping[str, int]) -> None:
        """Lower the numbers of outputs that wait, and keep none that are delivered."""
        for sink, shift in shifts.items():
            queue = self._of(int(sink))
            for one in queue.waiting:
                one.piece = one.piece._replace(number=one.piece.number - shift)
            queue.kept.clear()
            queue.kept_bytes = 0
            queue.found = max(queue.found - shift, 0)

    def note_renumbered(self, shifts: Mapping[str, int]) -> None:
        """Lower the numbers of what is published; nothing of it is delivered."""
        for sink, shift in shifts.items():
            queue = self._of(int(sink))
            queue.last -= shift
            queue.delivered = queue.sent = 0

    # --- segments --------------------------------------------------------------------------------

    def bytes_before(self, address: int) -> int:
        """Bytes of the outputs before *address* that are still needed."""
        return sum(one.piece.size for one in self._before(address))

    @property
    def needed_from(self) -> int | None:
        """Address in the log from which on outputs are needed; None if none are."""
        firsts = [
            one.address for queue in self._queues.values() for one in (*queue.waiting, *queue.kept)
        ]
        return min(firsts, default=None)

    def carry(self, address: int, append: Callable[..., int]) -> Callable[[], None]:
        """Add the outputs before *address* to the end of the log, with *append*.

        Returns:
            What is to be called when they are on disk there: until then, they are where they were.
        """
        moved: list[tuple[Waiting, int]] = []
        for queue in self._queues.values():
            for kept, among in ((False, queue.waiting), (True, queue.kept)):
                for one in among:
                    if one.address < address:
                        outputs = one.outputs or self._read(one)
                        parts = pack_outputs(one.piece.number, outputs, kept=kept)
                        moved.append((one, append(CARRIED, *parts)))

        def durable() -> None:
            for one, place in moved:
                one.address = place

        return durable

    def _before(self, address: int) -> Iterator[Waiting]:
        for queue in self._queues.values():
            for among in (queue.waiting, queue.kept):
                for one in among:
                    if one.address >= address:
                        break
                    yield one
