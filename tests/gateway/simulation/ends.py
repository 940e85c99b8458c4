"""What is outside: senders of acknowledged streams, and the receiver of a numbered sink."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from tests.gateway.simulation.clock import VirtualLoop
from tests.gateway.simulation.network import Wire
from tests.gateway.simulation.query import MESSAGE, OUTPUT
from wallaroo.gateway.journal.stream_positions import Opener, StreamName
from wallaroo.gateway.outbox.queues import Delivery
from wallaroo.gateway.store import Store

_MOST_UNACKNOWLEDGED = 40
_MOST_IN_FLIGHT = 4
SINK = 0


class Sender:
    """Sends numbered messages, and after a crash those that were not acknowledged.

    Args:
        loop: The clock.
        rng: Decides what is sent when.
        stream: Its number.
        most: Messages that it sends in all.
        keys: How many keys there are.
    """

    def __init__(
        self, loop: VirtualLoop, rng: random.Random, stream: int, most: int, keys: int
    ) -> None:
        self._loop, self._rng = loop, rng
        self._stream, self._name = stream, StreamName(0, f"s{stream}")
        self._store: Store | None = None
        self._keys = [rng.randrange(keys) for _ in range(most)]
        self._pause_s = 10 ** rng.uniform(-2.5, -1.3)
        self.sent = self.acknowledged = 0

    @property
    def is_done(self) -> bool:
        """Whether all of it is acknowledged."""
        return self.acknowledged == len(self._keys)

    def counts(self) -> Counter[int]:
        """How many messages each key has."""
        return Counter(self._keys)

    def connect(self, store: Store) -> None:
        """Go on with this gateway."""
        self._store = store
        known = store.journal.stream_positions.open(self._name, Opener(None, "sender"))
        assert self.acknowledged <= known <= self.sent, "an acknowledged message was lost"
        self.sent = self.acknowledged = known
        self._loop.call_soon(self._send, store)

    def lose(self) -> None:
        """The gateway is gone."""
        self._store = None

    def accepted(self, positions: Mapping[StreamName, int]) -> None:
        """See `Journal.on_accepted`."""
        if self._name in positions:
            self.acknowledged = positions[self._name]

    def _send(self, store: Store) -> None:
        if store is not self._store or self.is_done:
            return
        most = _MOST_UNACKNOWLEDGED - (self.sent - self.acknowledged)
        count = min(self._rng.choice((1, 1, 1, 5, 20)), most, len(self._keys) - self.sent)
        if count > 0:
            numbers = range(self.sent, self.sent + count)
            data = b"".join(MESSAGE.pack(self._keys[n], self._stream, n + 1) for n in numbers)
            self.sent += count
            store.journal.submit(0, count, data, (self._name, self.sent))
        self._loop.call_later(self._rng.expovariate(1 / self._pause_s), self._send, store)


class Receiver:
    """Takes outputs, knows them by their numbers, and says which it has.

    Args:
        loop: The clock.
        rng: Decides how long things take.
    """

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self._loop, self._rng = loop, rng
        self._store: Store | None = None
        self._down = self._up = Wire(loop, rng)
        self._taken = 0
        self._in_flight = 0
        self.outputs: list[bytes] = []
        self.repeated = 0

    def connect(self, store: Store) -> None:
        """Take the outputs of this gateway."""
        self._store = store
        self._down, self._up = Wire(self._loop, self._rng), Wire(self._loop, self._rng)
        self._taken = self._in_flight = 0
        store.outbox.on_added(SINK, self._pump)
        self._loop.call_soon(self._pump)

    def lose(self) -> None:
        """The gateway is gone."""
        self._store = None
        if self._rng.random() < 0.5:
            self._down.cut()  # otherwise what it has sent still arrives
        self._up.cut()

    def _pump(self) -> None:
        while self._store is not None and self._in_flight < _MOST_IN_FLIGHT:
            delivery = self._store.outbox.next(SINK, self._taken, 0.0)
            if delivery is None:
                return
            self._taken = delivery.position
            self._in_flight += 1
            self._down.send(self._take, self._store, delivery)

    def _take(self, store: Store, delivery: Delivery) -> None:
        for number, output in enumerate(delivery.outputs.cut(), delivery.number):
            assert number <= len(self.outputs) + 1, f"output {number} is ahead"
            if number <= len(self.outputs):
                assert output == self.outputs[number - 1], f"output {number} is another one"
                self.repeated += 1
            else:
                self.outputs.append(output)
        assert delivery.last == delivery.position
        self._up.send(self._acknowledged, store, delivery.position)

    def _acknowledged(self, store: Store, position: int) -> None:
        if store is self._store:
            self._in_flight -= 1
            store.outbox.delivered(SINK, position)
            self._pump()

    def check(self, levels: int) -> Counter[int]:
        """Whether keys, groups and streams are counted right; how many messages each key has."""
        keys: Counter[int] = Counter()
        groups: Counter[int] = Counter()
        last: dict[tuple[int, int], int] = {}
        for output in self.outputs:
            key, stream, number, count, group, of_group = OUTPUT.unpack(output)
            keys[key] += 1
            if levels == 1:
                assert count == keys[key], f"key {key}: {count} after {keys[key] - 1}"
            else:
                groups[group] += 1
                assert of_group == groups[group], f"group {group}: {of_group}"
                assert count == keys[key], f"key {key} in its group: {count}"
            assert number > last.get((key, stream), 0), f"stream {stream} out of order"
            last[key, stream] = number
        return keys
