"""The connectors of an application, each of which the package opens that its endpoint names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

from wallaroo.gateway.connector import (
    ConnectorContext,
    Reporting,
    SinkConnector,
    SourceConnector,
    SourceState,
)
from wallaroo.gateway.journal.stream_positions import StreamName
from wallaroo.metrics.samples import Sample
from wallaroo.model.endpoints import Sink, Source


class SourceConnectors:
    """The connectors of an application's sources.

    Args:
        context: What they need.
        sources: All sources, in the order of their indices.
    """

    def __init__(self, context: ConnectorContext, sources: Sequence[Source]) -> None:
        self._connectors: list[SourceConnector] = []
        self._of_index: dict[int, SourceConnector] = {}
        of_packages: dict[str, dict[int, Source]] = {}
        for index, source in enumerate(sources):
            of_packages.setdefault(source.connector, {})[index] = source
        # those that bind addresses, which can fail, before those that read
        for package in sorted(of_packages, key=lambda one: not _listens(of_packages[one])):
            module = importlib.import_module(f"{package}.source")
            connector: SourceConnector = module.open_sources(context, of_packages[package])
            self._connectors.append(connector)
            self._of_index |= dict.fromkeys(of_packages[package], connector)

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
    """Start to deliver the outputs of *sink*, which has this index in the application."""
    module = importlib.import_module(f"{sink.connector}.sink")
    connector: SinkConnector = module.open_sink(context, index, sink)
    return connector


def _listens(sources: Mapping[int, Source]) -> bool:
    return any(source.address is not None for source in sources.values())
