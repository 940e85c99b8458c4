"""Outputs go into a queue."""

from __future__ import annotations

from tests.connectors.toy import queues
from tests.connectors.toy.resolve import QueueSink
from wallaroo.connectors.threads import SinkThread
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.outbox import Outbox, cut_outputs


def open_sink(context: ConnectorContext, index: int, sink: QueueSink) -> QueueWriter:
    return QueueWriter(index, sink, context.outbox)


class QueueWriter(SinkThread[QueueSink]):
    WAITS = "it waits for the queue"

    def __init__(self, index: int, sink: QueueSink, outbox: Outbox) -> None:
        super().__init__(index, sink, outbox)
        self._thread.start()

    def _write(self) -> None:
        while not self._stopping.is_set():
            if (delivery := self._next()) is not None:
                for output in cut_outputs(delivery.outputs):
                    queues[self._sink.queue].put(output)
                self._settle(delivery.position)
