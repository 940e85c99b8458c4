"""The lookup of the gateway's socket for chunks, for an engine."""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import ControlClient
from wallaroo.gateway.internal_api.location import chunks_socket


@dataclass(frozen=True)
class Connector:
    """A gateway for an engine; implements `GatewayAPI`."""

    location: str
    """Where the internal API is, see `location`."""
    claim: int
    """Number of the driver's lease."""

    def chunks_address(self) -> str:
        """See `GatewayAPI.chunks_address`; tries once."""
        if (path := chunks_socket(self.location)) is not None:
            return str(path)
        port = ControlClient(self.location, claim=self.claim, patience_s=0).chunks_port()
        if port is None:
            msg = "the gateway takes no chunks: start it with --token-file"
            raise RuntimeFailure(msg)
        scheme, _, address = self.location.partition("://")
        host, _, _ = address.rpartition(":")
        return f"{'tls' if scheme == 'https' else 'tcp'}://{host}:{port}"
