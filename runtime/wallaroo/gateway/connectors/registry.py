"""The kinds of connectors. Nothing else in the gateway knows of which kind a source or sink is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.gateway.connectors.base import (
    ConnectorContext,
    Reporting,
    SinkConnector,
    SourceConnector,
    SourceState,
)
from wallaroo.gateway.connectors.http.sources import HTTPSources
from wallaroo.gateway.connectors.kafka.sink import KafkaSinkWriter
from wallaroo.gateway.connectors.kafka.source import KafkaSources
from wallaroo.gateway.connectors.parquet.sink import ParquetSinkWriter
from wallaroo.gateway.connectors.python_sink import PythonSinkWriter
from wallaroo.gateway.connectors.python_source import PythonSources
from wallaroo.gateway.connectors.sql.sink import SQLSinkWriter
from wallaroo.gateway.connectors.sse.sink import SSESinkServer
from wallaroo.gateway.connectors.tcp.listener import TCPListener
from wallaroo.gateway.connectors.tcp.numbering import remark_on_change
from wallaroo.gateway.connectors.tcp.sender import TCPSender
from wallaroo.gateway.connectors.webhook.sink import WebhookSinkWriter
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.metrics.samples import Sample
from wallaroo.model.endpoints import (
    CustomSink,
    CustomSource,
    HTTPSource,
    Sink,
    Source,
    TCPSink,
    TCPSource,
)
from wallaroo.model.kafka import KafkaSink, KafkaSource
from wallaroo.model.parquet import ParquetSink
from wallaroo.model.sse import SSESink
from wallaroo.model.tables import SQLSink
from wallaroo.model.webhook import WebhookSink


@dataclass(frozen=True)
class ConnectorKind:
    """One kind of connector: sources, sinks, or both.

    What else differs between kinds (whether a source listens or ends, how its messages lie in the
    journal, how it is drawn) is in their subclasses of `Source` and `Sink`.
    """

    name: str
    source: type[Source] | None = None
    """Class of its sources."""
    open_sources: Callable[[ConnectorContext, Mapping[int, Any]], SourceConnector] | None = None
    """Makes the connector of its sources, which come by their index in the application."""
    sink: type[Sink] | None = None
    """Class of its sinks."""
    open_sink: Callable[[ConnectorContext, int, Any], SinkConnector] | None = None
    """Starts to deliver the outputs of a sink, given its index in the application."""


def _tcp_sender(context: ConnectorContext, index: int, sink: TCPSink) -> TCPSender:
    remark_on_change(index, sink, context.outbox)
    return TCPSender(index, sink, context.outbox, context.on_failure, context.sink_tls)


_KINDS = [
    ConnectorKind(
        "TCP",
        TCPSource,
        lambda context, sources: TCPListener(
            sources, context.journal, context.limits, context.source_tls
        ),
        TCPSink,
        _tcp_sender,
    ),
    ConnectorKind(
        "HTTP",
        HTTPSource,
        lambda context, sources: HTTPSources(
            sources, context.journal, context.limits, context.source_tls
        ),
    ),
    ConnectorKind(
        "SSE",
        sink=SSESink,
        open_sink=lambda context, index, sink: SSESinkServer(
            index, sink, context.outbox, context.source_tls, context.on_failure
        ),
    ),
    ConnectorKind(
        "webhook",
        sink=WebhookSink,
        open_sink=lambda context, index, sink: WebhookSinkWriter(
            index, sink, context.outbox, context.sink_tls, context.on_failure
        ),
    ),
    ConnectorKind(
        "SQL",
        sink=SQLSink,
        open_sink=lambda context, index, sink: SQLSinkWriter(index, sink, context.outbox),
    ),
    ConnectorKind(
        "Parquet",
        sink=ParquetSink,
        open_sink=lambda context, index, sink: ParquetSinkWriter(index, sink, context.outbox),
    ),
    ConnectorKind(
        "Kafka",
        KafkaSource,
        lambda context, sources: KafkaSources(sources, context.journal),
        KafkaSink,
        lambda context, index, sink: KafkaSinkWriter(index, sink, context.outbox),
    ),
    ConnectorKind(
        "Python",
        CustomSource,
        lambda context, sources: PythonSources(sources, context.journal),
        CustomSink,
        lambda context, index, sink: PythonSinkWriter(index, sink, context.outbox),
    ),
]
"""Kinds in the order in which their sources start: those that bind addresses, which can fail,
before those that read."""


def register(kind: ConnectorKind) -> None:
    """Let gateways of this process use *kind*."""
    _KINDS.append(kind)


class SourceConnectors:
    """The connectors of an application's sources.

    Args:
        context: What they need.
        sources: All sources, in the order of their indices.

    Raises:
        LookupError: No connector is registered for a source.
    """

    def __init__(self, context: ConnectorContext, sources: Sequence[Source]) -> None:
        self._connectors: list[SourceConnector] = []
        self._of_index: dict[int, SourceConnector] = {}
        kinds = [_kind_of_source(source) for source in sources]
        for kind in _KINDS:
            of_kind = {index: sources[index] for index, found in enumerate(kinds) if found is kind}
            if of_kind and kind.open_sources is not None:
                connector = kind.open_sources(context, of_kind)
                self._connectors.append(connector)
                self._of_index |= dict.fromkeys(of_kind, connector)

    async def start(self) -> None:
        """See `SourceConnector.start`."""
        for connector in self._connectors:
            await connector.start()

    async def stop(self) -> None:
        """See `SourceConnector.stop`."""
        for connector in self._connectors:
            await connector.stop()

    async def close(self) -> None:
        """See `SourceConnector.close`."""
        for connector in self._connectors:
            await connector.close()

    def status(self, index: int) -> SourceState:
        """See `SourceConnector.status`."""
        return self._of_index[index].status(index)

    @property
    def connections(self) -> int:
        """Connections of senders that are open now."""
        return sum(connector.connections for connector in self._connectors)

    def samples(self) -> list[Sample]:
        """Metrics of connectors that have any."""
        reporting = [one for one in self._connectors if isinstance(one, Reporting)]
        return [sample for connector in reporting for sample in connector.samples()]

    def on_room(self) -> None:
        """See `SourceConnector.on_room`."""
        for connector in self._connectors:
            connector.on_room()

    def on_accepted(self, positions: Mapping[StreamName, int]) -> None:
        """See `SourceConnector.on_accepted`."""
        for connector in self._connectors:
            connector.on_accepted(positions)


def open_sink(context: ConnectorContext, index: int, sink: Sink) -> SinkConnector:
    """Start to deliver the outputs of *sink*.

    Raises:
        LookupError: No connector is registered for it.
    """
    for kind in _KINDS:
        if kind.open_sink is not None and kind.sink is not None and isinstance(sink, kind.sink):
            return kind.open_sink(context, index, sink)
    msg = f"no connector is registered for sink {sink.name!r}, a {type(sink).__name__}"
    raise LookupError(msg)


def _kind_of_source(source: Source) -> ConnectorKind:
    for kind in _KINDS:
        if kind.source is not None and isinstance(source, kind.source):
            return kind
    msg = f"no connector is registered for source {source.name!r}, a {type(source).__name__}"
    raise LookupError(msg)
