"""The gateway's interface for an engine.

Messages, outputs and changes of state travel over the gateway's sockets for chunks.
"""

from __future__ import annotations

from typing import Protocol


class GatewayAPI(Protocol):
    """A gateway that an engine runs an application with."""

    @property
    def claim(self) -> int:
        """Number of the driver's lease."""

    def chunks_address(self) -> str:
        """The address of its socket for chunks, from the gateway itself.

        Raises:
            RuntimeFailure: The gateway does not answer, or has none.
        """
