"""The inputs and outputs of `wallaroo demo`: ports, and topics of Kafka."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wallaroo.cli.streams import Cutter, FramingName
from wallaroo.connectors.kafka.client import REQUEST_S, TopicClient
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.resolve import KafkaSink, KafkaSource
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.model.application import Application
from wallaroo.run.background_run import BackgroundRun

if TYPE_CHECKING:
    from confluent_kafka import Consumer

STALLED_S = 60.0
"""Seconds without a new output after which the demo gives up."""
_GROUP = "wallaroo-demo"
_PARTITION = 0
"""The partition that is written: only records of one partition have an order."""
_WAIT_S = 0.2


class Senders:
    """Send payloads to the sources of an application, each by the source's own kind.

    Args:
        application: The application, which is not running yet.

    Raises:
        UsageError: A source reads a topic that cannot be used for a demo.
        RuntimeFailure: A topic cannot be reached.
    """

    def __init__(self, application: Application) -> None:
        self._topics = {
            source.name: _TopicSender(source)
            for source in application.sources
            if isinstance(source, KafkaSource)
        }
        self._connections: dict[str, socket.socket] = {}

    def send(self, running: BackgroundRun, source: str, payloads: Sequence[bytes]) -> int:
        """Send *payloads* to *source*; returns the number of bytes."""
        if source in self._topics:
            return self._topics[source].send(payloads)
        if source not in self._connections:
            host, port = running.sources[source].rsplit(":", 1)
            self._connections[source] = socket.create_connection((host, int(port)))
        data = b"".join(len(p).to_bytes(4, "big") + p for p in payloads)
        self._connections[source].sendall(data)
        return len(data)

    def close(self) -> None:
        """Close connections."""
        for connection in self._connections.values():
            connection.close()


class Outputs:
    """All outputs of an application, with the time of each.

    Args:
        application: The application, which is not running yet.
        framing: How outputs that are sent to a port are cut.

    Raises:
        RuntimeFailure: A topic cannot be reached.
    """

    def __init__(self, application: Application, framing: FramingName) -> None:
        self.received: list[tuple[float, bytes]] = []
        self._changed = threading.Condition()
        receiver = _Receiver(lambda: Cutter(framing), self._add)
        self.address = receiver.address
        """Where outputs may be sent to."""
        topics = [sink.topic for sink in application.output_sinks if isinstance(sink, KafkaSink)]
        readers = [_TopicReader(topic, self._add) for topic in topics]
        self._takers: list[_Receiver | _TopicReader] = [receiver, *readers]

    def __enter__(self) -> Outputs:
        for taker in self._takers:
            threading.Thread(target=taker.run, name="demo-outputs", daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        for taker in self._takers:
            taker.close()

    def wait_for(self, count: int, running: BackgroundRun) -> None:
        """Wait for *count* outputs, unless they stop arriving or *running* ends."""
        with self._changed:
            count_before, at = -1, time.monotonic()
            while len(self.received) < count and running.process.poll() is None:
                if len(self.received) > count_before:
                    count_before, at = len(self.received), time.monotonic()
                elif time.monotonic() - at > STALLED_S:
                    return
                self._changed.wait(1.0)

    def _add(self, outputs: Sequence[bytes]) -> None:
        now = time.monotonic()
        with self._changed:
            self.received += [(now, output) for output in outputs]
            self._changed.notify_all()


class _Receiver:
    """Takes outputs at a port."""

    def __init__(self, cutter: Callable[[], Cutter], add: Callable[[Sequence[bytes]], None]):
        self._cutter, self._add = cutter, add
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname()[:2])

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._take, args=(connection,), name="demo-receiver", daemon=True
            ).start()

    def close(self) -> None:
        self._listener.close()

    def _take(self, connection: socket.socket) -> None:
        with connection:
            cutter = self._cutter()
            while piece := connection.recv(1 << 18):
                self._add(list(cutter.feed(piece)))


class _TopicSender:
    """Writes to the topic of a source."""

    def __init__(self, source: KafkaSource) -> None:
        if source.topic.pattern is not None:
            msg = f"source {source.name} reads {source.topic}: a demo requires names of topics"
            raise UsageError(msg)
        self._topic = source.topic.one(source.topic.name)
        if source.start != "earliest":
            msg = f"source {source.name} starts at {source.start}: a demo requires 'earliest'"
            raise UsageError(msg)
        with _client(self._topic) as client, contextlib.closing(client.consumer(_GROUP)) as reader:
            for partition in client.describe()[1]:
                first, end = _bounds(reader, self._topic, partition)
                if first != end:
                    msg = f"{self._topic} has records: a demo requires an empty topic"
                    raise UsageError(msg)
            self._producer = client.producer()

    def send(self, payloads: Sequence[bytes]) -> int:
        for payload in payloads:
            while True:
                try:
                    self._producer.produce(self._topic.name, payload, partition=_PARTITION)
                    break
                except BufferError:
                    self._producer.poll(_WAIT_S)
        if self._producer.flush(STALLED_S):
            msg = f"{self._topic} takes no records: they were not written in {STALLED_S:.0f} s"
            raise RuntimeFailure(msg)
        return sum(map(len, payloads))


class _TopicReader:
    """Reads what is written to a topic from now on, and committed."""

    def __init__(self, topic: Topic, add: Callable[[Sequence[bytes]], None]) -> None:
        self._add = add
        self._closed = threading.Event()
        with _client(topic) as client:
            from confluent_kafka import TopicPartition

            partitions = client.describe()[1]
            self._consumer = client.consumer(_GROUP)
            ends = {at: _bounds(self._consumer, topic, at)[1] for at in partitions}
            self._consumer.assign([TopicPartition(topic.name, *end) for end in ends.items()])

    def run(self) -> None:
        while not self._closed.is_set():
            found = self._consumer.consume(1000, _WAIT_S)
            self._add([record.value() or b"" for record in found if record.error() is None])
        self._consumer.close()

    def close(self) -> None:
        self._closed.set()


@contextlib.contextmanager
def _client(topic: Topic) -> Iterator[TopicClient]:
    """A client for *topic*; its errors are described in words."""
    client = TopicClient(topic, threading.Event())  # tells if the extra is not installed
    client.check()
    from confluent_kafka import KafkaException

    try:
        yield client
    except (KafkaProblem, KafkaException) as error:
        raise RuntimeFailure(client.reason(error)) from error


def _bounds(consumer: Consumer, topic: Topic, partition: int) -> tuple[int, int]:
    """First offset and end of a partition."""
    from confluent_kafka import TopicPartition

    bounds: Any = consumer.get_watermark_offsets(TopicPartition(topic.name, partition), REQUEST_S)
    if bounds is None:
        msg = f"{topic}: no broker says what partition {partition} holds"
        raise KafkaProblem(msg)
    return int(bounds[0]), int(bounds[1])
