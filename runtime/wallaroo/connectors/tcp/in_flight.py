"""Outputs on their way to a receiver, and how much of them it has acknowledged."""

from __future__ import annotations

from array import array

from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.wire.numbered import HEADER, sequenced
from wallaroo.wire.records import Outputs

NOT_SENT = 1 << 62
"""A place that no connection's bytes reach."""


class InFlight:
    """A delivery that is given to a connection, and not acknowledged whole."""

    __slots__ = ("_delivery", "done", "start")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.done = 0
        """Bytes that a former connection delivered: whole outputs."""
        self.start = NOT_SENT
        """Place, in this connection's bytes, of the first byte after `done`, once it is sent."""

    @property
    def position(self) -> int:
        """Its position in the outbox."""
        return self._delivery.position

    @property
    def rest(self) -> memoryview:
        """The bytes after `done`."""
        return memoryview(self._delivery.outputs.data)[self.done :]

    def acknowledged_by(self, acknowledged: int) -> bool:
        """Whether the connection's first *acknowledged* bytes hold all of it."""
        return self.start + len(self.rest) <= acknowledged

    def note(self, acknowledged: int) -> None:
        """Move `done` past the outputs that the connection's first bytes contain completely."""
        reached, end = self.done + acknowledged - self.start, 0
        for length in self._delivery.outputs.sizes:
            if end + length > reached:
                break
            end += length
        self.done = max(self.done, end)


class NumberedInFlight(InFlight):
    """One whose outputs are numbered: the receiver acknowledges the last that it has."""

    __slots__ = ()

    def __init__(self, delivery: Delivery) -> None:
        outputs = delivery.outputs
        longer = array("I", (length + HEADER.size for length in outputs.sizes)).tobytes()
        data = sequenced(delivery.number, outputs.cut())
        super().__init__(delivery._replace(outputs=Outputs(outputs.sink, longer, data)))

    def acknowledged_by(self, acknowledged: int) -> bool:  # noqa: D102
        return self._delivery.last <= acknowledged

    def note(self, acknowledged: int) -> None:  # noqa: D102
        had = max(0, acknowledged - self._delivery.number + 1)
        self.done = max(self.done, sum(self._delivery.outputs.sizes[:had]))
