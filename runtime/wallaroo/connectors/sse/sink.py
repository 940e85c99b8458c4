"""Outputs as server-sent events: delivered as soon as viewers can read them."""

from __future__ import annotations

from collections.abc import Iterator

from wallaroo.connectors.listening import socket_of
from wallaroo.connectors.sse.history import History
from wallaroo.connectors.sse.resolve import SSESink
from wallaroo.connectors.sse.viewers import Viewers
from wallaroo.connectors.threads import SinkThread
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.system.credentials import read_token

_SERIES_LETTERS = 8
"""Letters of the outbox's name that are in the identifiers of events."""


class SSESinkServer(SinkThread[SSESink]):
    """Takes one sink's outputs in a separate thread, and lets viewers read them.

    Raises:
        RuntimeFailure: The address cannot be bound.
        UsageError: The file with the token cannot be used.
    """

    WAITS = "it waits for the disk"

    def __init__(self, context: ConnectorContext, index: int, sink: SSESink) -> None:
        super().__init__(context, index, sink)
        self._on_failure, outbox = context.on_failure, context.outbox
        token = None if sink.token_file is None else read_token(sink.token_file)
        self._history = History(sink.keep_bytes, sink.event, outbox.identity[:_SERIES_LETTERS])
        kept = outbox.kept(index)
        first = kept[0].number if kept else outbox.delivered_to(index) + 1
        self._history.begin(first, outbox.published_to(index))
        for delivery in kept:
            self._history.add(delivery.number, delivery.outputs.cut())
        listener = socket_of(sink, "sink", "SSESinkConfig")
        host, port = listener.getsockname()[:2]
        self.where = f"{host}:{port}"
        """Address that is bound."""
        self._viewers = Viewers(sink, self._history, listener, context.source_tls, token)
        self._thread.start()

    def stop(self) -> None:
        """Take no more outputs, and end the connections of viewers."""
        super().stop()
        self._viewers.stop()

    def samples(self) -> Iterator[Sample]:
        """How many viewers there are, and how many did not keep up."""
        name = (self._sink.name,)
        yield Sample(catalogue.SSE_VIEWERS, name, self._viewers.count)
        yield Sample(catalogue.SSE_DISCONNECTED, name, self._viewers.disconnected)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # the gateway must not go on without this sink
            self._on_failure(error)

    def _work(self) -> None:
        """Take outputs as they are published, until stopped."""
        while not self._stopping.is_set():
            if (delivery := self._next()) is None:
                continue
            self._history.add(delivery.number, delivery.outputs.cut())
            self._viewers.wake()
            self._outbox.delivered(self._index, delivery.position, self._sink.keep_bytes)
            self._taken = delivery.position


open_sink = SSESinkServer
