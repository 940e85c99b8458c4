"""How a process on any machine reaches the gateway: a small, picklable value."""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.engine.realtime.messages import chunks_socket
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.internal_api.client import GatewayClient
from wallaroo.gateway.internal_api.connection import PATIENCE_S


@dataclass(frozen=True)
class Connector:
    """Connects to a gateway; equal to its copies, so that a worker recognises its job.

    It does not contain the token, since it travels in Spark's plans: each process has the token in
    its environment (`credentials.TOKEN_VARIABLE`), as it has the authorities for TLS.
    """

    location: str
    """Where the internal API is: `grpc+unix:///PATH`, `grpc://HOST:PORT` or `grpc+tls://HOST:PORT`."""
    claim: int | None = None
    """Number of the driver's lease."""
    patience_s: float = PATIENCE_S
    """Seconds to keep trying while the gateway does not answer."""

    def __call__(self) -> GatewayClient:
        """A connection."""
        return GatewayClient(self.location, claim=self.claim, patience_s=self.patience_s)

    def chunks_address(self) -> str:
        """See `Addressed.chunks_address`; tries once."""
        if (path := chunks_socket(self.location)) is not None:
            return str(path)
        client = GatewayClient(self.location, claim=self.claim, patience_s=0)
        try:
            port = client.chunks_port()
        finally:
            client.close()
        if port is None:
            msg = "the gateway takes no chunks: start it with --token-file"
            raise RuntimeFailure(msg)
        scheme, _, address = self.location.partition("://")
        host, _, _ = address.rpartition(":")
        return f"{'tls' if scheme == 'grpc+tls' else 'tcp'}://{host}:{port}"
