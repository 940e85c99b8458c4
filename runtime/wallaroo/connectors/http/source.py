"""The HTTP sources of an application: each has a server in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from wallaroo.connectors.http.resolve import HTTPSource
from wallaroo.connectors.http.server import HTTPServer
from wallaroo.connectors.listening import socket_of
from wallaroo.gateway.connector import ConnectorContext, SourceConnector, SourceState
from wallaroo.gateway.journal.stream_positions import StreamName


class HTTPSources(SourceConnector):
    """Takes messages by POST.

    Args:
        context: What the gateway gives.
        sources: The sources by their indices.
    """

    def __init__(self, context: ConnectorContext, sources: Mapping[int, HTTPSource]) -> None:
        self._context, self._sources = context, sources
        self._servers: dict[StreamName, HTTPServer] = {}
        self.addresses: dict[int, tuple[str, int]] = {}
        """Addresses that are bound, by index of the source."""

    async def start(self) -> None:
        """See `SourceConnector.start`."""
        for index, source in self._sources.items():
            listener = socket_of(source, "source", "--in")
            self.addresses[index] = listener.getsockname()[:2]
            server = HTTPServer(self._context, index, source, listener)
            self._servers[server.name] = server

    async def stop(self) -> None:
        """See `SourceConnector.stop`."""
        stops = [asyncio.to_thread(server.stop) for server in self._servers.values()]
        await asyncio.gather(*stops)
        self._servers.clear()

    def status(self, index: int) -> SourceState:
        """See `SourceConnector.status`."""
        host, port = self.addresses[index]
        return SourceState(f"{host}:{port}")

    @property
    def connections(self) -> int:
        """Connections open now."""
        return sum(server.connections for server in list(self._servers.values()))

    def on_room(self) -> None:
        """See `SourceConnector.on_room`."""
        for server in list(self._servers.values()):
            server.resume()

    def on_accepted(self, positions: Mapping[StreamName, int]) -> None:
        """See `SourceConnector.on_accepted`."""
        for name, last in positions.items():
            if (server := self._servers.get(name)) is not None:
                server.accepted(last)


open_sources = HTTPSources
