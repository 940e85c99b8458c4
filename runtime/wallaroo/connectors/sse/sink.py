"""Outputs as server-sent events: delivered as soon as viewers can read them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

from wallaroo.connectors.listening import socket_of
from wallaroo.connectors.sse.history import History
from wallaroo.connectors.sse.resolve import SSESink
from wallaroo.connectors.sse.viewers import Viewers
from wallaroo.connectors.threads import SinkThread
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.outbox.outbox import Outbox, cut_outputs
from wallaroo.metrics import catalogue
from wallaroo.metrics.samples import Sample
from wallaroo.system.credentials import read_token

_SERIES_LETTERS = 8
"""Letters of the outbox's name that are in the identifiers of events."""


def open_sink(context: ConnectorContext, index: int, sink: SSESink) -> SSESinkServer:
    """Start to deliver the outputs of *sink*, which has this index in the application."""
    return SSESinkServer(index, sink, context.outbox, context.source_tls, context.on_failure)


class SSESinkServer(SinkThread[SSESink]):
    """Takes one sink's outputs in a separate thread, and lets viewers read them.

    Args:
        index: Index of the sink in the application.
        sink: The sink.
        outbox: Where the outputs are.
        tls: Encrypts connections; None for plain HTTP.
        on_failure: Called if the outbox fails.

    Raises:
        RuntimeFailure: The address cannot be bound.
        UsageError: The file with the token cannot be used.
    """

    WAITS = "it waits for the disk"

    def __init__(
        self,
        index: int,
        sink: SSESink,
        outbox: Outbox,
        tls: ssl.SSLContext | None,
        on_failure: Callable[[Exception], None],
    ) -> None:
        super().__init__(index, sink, outbox)
        self._on_failure = on_failure
        token = None if sink.token_file is None else read_token(sink.token_file)
        self._history = History(sink.keep_bytes, sink.event, outbox.identity[:_SERIES_LETTERS])
        kept = outbox.kept(index)
        first = kept[0].number if kept else outbox.delivered_to(index) + 1
        self._history.begin(first, outbox.published_to(index))
        for delivery in kept:
            self._history.add(delivery.number, cut_outputs(delivery.outputs))
        listener = socket_of(sink, "sink", "SSESinkConfig")
        host, port = listener.getsockname()[:2]
        self.where = f"{host}:{port}"
        """Address that is bound."""
        self._viewers = Viewers(sink, self._history, listener, tls, token)
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
            self._write()
        except Exception as error:  # the gateway must not go on without this sink
            self._on_failure(error)

    def _write(self) -> None:
        """Take outputs as they are published, until stopped."""
        while not self._stopping.is_set():
            if (delivery := self._next()) is None:
                continue
            self._history.add(delivery.number, cut_outputs(delivery.outputs))
            self._viewers.wake()
            self._outbox.delivered(self._index, delivery.position, self._sink.keep_bytes)
            self._taken = delivery.position
