"""A running application with topics, and the three brokers that have them."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.chaos.kafka_ends import TopicReader, TopicSender
from tests.chaos.logs import SETTLE_S, TICK_S, FilesTraffic
from tests.chaos.parts import Event
from tests.chaos.system import BURST, KEYS, PATIENCE_S, RATE, STREAMS, System
from tests.chaos.turn import MARKET_SPREAD, TOPIC_SINKS, TOPIC_SOURCES, Turn
from tests.helpers import wait_until
from tests.kafka.broker import Cluster
from wallaroo.client import Sender
from wallaroo.errors import RuntimeFailure

PARTITIONS = 4
_QUOTES = 2
"""Quotes in a burst."""
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
        self.quotes = self.brokers.topic(PARTITIONS) if self.read and self._has_quotes else ""
        """The topic of the second source; empty if there is none."""
        self.written = self.brokers.topic(PARTITIONS) if turn.shape in TOPIC_SINKS else ""
        """The topic of the sink; empty if it has none."""
        self._reader: TopicReader | None = None
        self._sending = threading.Event()
        self._sending.set()
        self._quoting = threading.Event()
        self._quoting.set()
        self._recreated = 0
        """How often the topic of the source was recreated, and no source has said so."""
        self._received_before = -1
        """Outputs before the last time: until the next one, a source that is killed repeats it."""
        self._senders: list[TopicSender] = []
        """Those of the topic of the source."""

    def __enter__(self) -> Self:
        self._open_reader()
        super().__enter__()
        if self._has_quotes:
            names = [f"s{stream}k{key}" for stream in range(STREAMS) for key in range(KEYS)]
            self._spawn(self._quote, itertools.cycle(names))
        return self

    def __exit__(self, *exc: object) -> None:
        self._sending.set()
        self._quoting.set()
        super().__exit__(*exc)
        if self._reader is not None:
            self._reader.close()
        self.brokers.close()

    def finish(self) -> int:
        """End the senders of quotes, then all; see `System.finish`."""
        with self._without_quotes():
            return super().finish()

    @property
    def _stops_early(self) -> bool:
        """Also: what is in a topic and was not read stays there."""
        return bool(self.read) or super()._stops_early

    @property
    def topics(self) -> list[str]:
        """The topics of source and sink."""
        return [topic for topic in (self.read, self.quotes, self.written) if topic]

    def recreate(self, topic: str) -> None:
        """Delete *topic* when all that is in it was read, and create it again."""
        with self._without_quotes(), self._without_messages():
            if topic == self.read:
                self._recreated += 1
                self._received_before = self.ledger.received
            if topic == self.written and self._reader is not None:
                self._reader.close()
            self.brokers.remove(topic)
            self.brokers.make(topic, PARTITIONS)
            if topic == self.read:
                for sender in self._senders:
                    sender.renew()
            if topic == self.written:
                self._open_reader()

    @property
    def _has_quotes(self) -> bool:
        return self.turn.application == MARKET_SPREAD

    @contextlib.contextmanager
    def _without_quotes(self) -> Iterator[None]:
        """Orders go on until results have told of the last quotes."""
        if not self._has_quotes:
            yield
            return
        with self._halting(self._quoting):
            yield

    def _without_messages(self) -> contextlib.AbstractContextManager[None]:
        return self._halting(self._sending)

    @contextlib.contextmanager
    def _halting(self, sending: threading.Event) -> Iterator[None]:
        """What *sending* lets send waits, once all that it has sent came out."""
        sending.clear()
        try:
            time.sleep(_QUIET_S)
            wait_until(lambda: self.ledger.wait_for_all(1.0), "all outputs", PATIENCE_S)
            yield
        finally:
            sending.set()

    def _open_reader(self) -> None:
        if self.written:
            self._reader = TopicReader(
                self.brokers, self.written, self.ledger, self.problems.append
            )

    @property
    def _own_arguments(self) -> list[str]:
        read = [topic for topic in (self.read, self.quotes) if topic]
        return [
            *("--brokers", self.brokers.proxied),
            *(["--read", ",".join(read)] if read else []),
            *(["--write", self.written] if self.written else []),
        ]

    @property
    def _addresses(self) -> list[str]:
        second = [f"127.0.0.1:{self.second_port}"] if self._has_quotes else []
        source = [] if self.read else ["--in", ",".join([self.address, *second])]
        return source + ([] if self.written else ["--out", self.receiver.address])

    def _note(self, event: Event) -> None:
        super()._note(event)
        if event.get("event") == "records lost":
            if self._recreated:
                self._recreated -= 1
            elif self.ledger.received != self._received_before:
                self.problems.append(f"records lost: {event.get('reason')}")

    def _send(self, stream: str, rate: int, names: Iterator[str]) -> None:
        names = self._while_sending(names)
        if isinstance(self.traffic, FilesTraffic):
            return
        if not self.read:
            super()._send(stream, rate, names)
            return
        sender = TopicSender(self.brokers, self.read)
        self._senders.append(sender)
        while not self._ending.wait(BURST / rate) and sender.problem is None:
            some = itertools.islice(names, BURST)
            sender.send(self.traffic.message(self.ledger, name) for name in some)
        self._close(sender)

    def _quote(self, names: Iterator[str]) -> None:
        """Send a quote for one symbol after the other."""
        with contextlib.ExitStack() as stack:
            if self.quotes:
                sender = TopicSender(self.brokers, self.quotes)
                stack.callback(self._close, sender)
            else:
                address = f"127.0.0.1:{self.second_port}"
                port = stack.enter_context(Sender(address, "quotes", timeout_s=PATIENCE_S))
            try:
                while not self._ending.wait(BURST / RATE):
                    if not self._quoting.is_set():
                        continue
                    quotes = [self.traffic.quote(self.ledger, next(names)) for _ in range(_QUOTES)]
                    if self.quotes:
                        sender.send(quotes)
                    else:
                        for _, quote in quotes:
                            port.send(quote)
            except RuntimeFailure as error:
                self.problems.append(f"quotes: {error}")

    def _write(self, traffic: FilesTraffic) -> None:
        """See `System._write`; a tick is written once the one before is on the brokers."""
        sender = TopicSender(self.brokers, self.read)
        self._senders.append(sender)
        closed = False
        while not self._ending.wait(TICK_S) and sender.problem is None:
            if self._sending.is_set():
                lines, closed = traffic.tick(self.ledger), False
            elif not closed:
                time.sleep(SETTLE_S)
                lines, closed = traffic.close(), True
            else:
                continue
            sender.send((b"%d" % log, line) for log, line in lines)
            sender.flush()
        time.sleep(SETTLE_S)
        sender.send((b"%d" % log, line) for log, line in traffic.close())
        self._close(sender)

    def _close(self, sender: TopicSender) -> None:
        if sender.problem is not None:
            self.problems.append(sender.problem)
        sender.flush()

    def _while_sending(self, names: Iterator[str]) -> Iterator[str]:
        for name in names:
            self._sending.wait()
            yield name
