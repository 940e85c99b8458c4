"""A running application with topics, and the three brokers that have them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.chaos.kafka_ends import TopicReader, TopicSender
from tests.chaos.parts import Event, Part
from tests.chaos.system import BURST_S, PATIENCE_S, RATE, System
from tests.chaos.turn import TOPIC_SINKS, TOPIC_SOURCES, Turn
from tests.helpers import wait_until
from tests.kafka.broker import Cluster

PARTITIONS = 4
_QUIET_S = 0.5
"""Time after which a sender that was told to wait does."""


class KafkaSystem(System):
    """The application, its brokers, and what writes to its topic and reads from it.

    Raises:
        NotAvailable: Kafka cannot be fetched.
    """

    def __init__(
        self, directory: Path, turn: Turn, *, keys: int = 0, rate: int = RATE, flood_s: float = 60.0
    ) -> None:
        super().__init__(directory, turn, keys=keys, rate=rate, flood_s=flood_s)
        (directory / "kafka").mkdir()
        self.brokers = Cluster(directory / "kafka")
        self.read = self.brokers.topic(PARTITIONS) if turn.shape in TOPIC_SOURCES else ""
        """The topic of the source; empty if it has none."""
        self.written = self.brokers.topic(PARTITIONS) if turn.shape in TOPIC_SINKS else ""
        """The topic of the sink; empty if it has none."""
        self._reader: TopicReader | None = None
        self._sending = threading.Event()
        self._sending.set()
        self._recreated = 0
        """How often the topic of the source was recreated."""

    def __enter__(self) -> Self:
        self._open_reader()
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        self._sending.set()
        super().__exit__(*exc)
        if self._reader is not None:
            self._reader.close()
        self.brokers.close()

    @property
    def topics(self) -> list[str]:
        """The topics of source and sink."""
        return [topic for topic in (self.read, self.written) if topic]

    def recreate(self, topic: str) -> None:
        """Delete *topic* when all that is in it was read, and create it again."""
        self._sending.clear()
        try:
            time.sleep(_QUIET_S)
            wait_until(lambda: self.ledger.wait_for_all(1.0), "all outputs", PATIENCE_S)
            if topic == self.read:
                self._recreated += 1
            if topic == self.written and self._reader is not None:
                self._reader.close()
            self.brokers.remove(topic)
            self.brokers.make(topic, PARTITIONS)
            if topic == self.written:
                self._open_reader()
        finally:
            self._sending.set()

    def _open_reader(self) -> None:
        if self.written:
            self._reader = TopicReader(
                self.brokers, self.written, self.ledger, self.problems.append
            )

    def _together(self) -> Part:
        (machine,) = self.machines.values()
        topics = ["--brokers", self.brokers.proxied]
        topics += ["--read", self.read] if self.read else []
        topics += ["--write", self.written] if self.written else []
        arguments = [
            *("run", str(self.turn.file), *self._traffic, *self._query),
            *("--state-dir", str(self.state), "--", *topics),
        ]
        return Part(arguments, self._environment(machine), self._note)

    @property
    def _addresses(self) -> list[str]:
        source = [] if self.read else ["--in", self.address]
        return source + ([] if self.written else ["--out", self.receiver.address])

    def _note(self, event: Event) -> None:
        super()._note(event)
        if event.get("event") == "records lost":
            self._recreated -= 1
            if self._recreated < 0:
                self.problems.append(f"records lost: {event.get('reason')}")

    def _send(self, stream: str, rate: int, names: Iterator[str]) -> None:
        names = self._while_sending(names)
        if not self.read:
            super()._send(stream, rate, names)
            return
        sender = TopicSender(self.brokers, self.read)
        while not self._ending.wait(BURST_S) and sender.problem is None:
            some = itertools.islice(names, int(rate * BURST_S))
            sender.send(self.ledger.next(name) for name in some)
        if sender.problem is not None:
            self.problems.append(sender.problem)
        sender.close()

    def _while_sending(self, names: Iterator[str]) -> Iterator[str]:
        for name in names:
            self._sending.wait()
            yield name
