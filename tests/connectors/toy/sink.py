"""Outputs go into a queue."""

from __future__ import annotations

from tests.connectors.toy import queues
from tests.connectors.toy.resolve import QueueSink
from wallaroo.connectors.threads import SinkThread
from wallaroo.gateway.connector import ConnectorContext


class QueueWriter(SinkThread[QueueSink]):
    WAITS = "it waits for the queue"

    def __init__(self, context: ConnectorContext, index: int, sink: QueueSink) -> None:
        super().__init__(context, index, sink)
        self._thread.start()

    def _work(self) -> None:
        while not self._stopping.is_set():
            if (delivery := self._next()) is not None:
                for output in delivery.outputs.cut():
                    queues[self._sink.queue].put(output)
                self._settle(delivery.position)


open_sink = QueueWriter
