"""Where messages come from and where outputs go."""

from __future__ import annotations

from typing import Any

from wallaroo.api.place import calling_place


class TCPSourceConfig:
    """A source that listens on a TCP address for framed messages.

    Args:
        host: Address to bind; "0.0.0.0" for every interface.
        port: Port to bind; 0 lets the system choose, and the `ready` event tells.
        decoder: Decoder of the payloads, which also says how frames are cut.

    Example:
        >>> from wallaroo.api.functions import decoder
        >>> text = decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
        >>> TCPSourceConfig("127.0.0.1", "7010", text).port
        7010
    """

    def __init__(self, host: str, port: int | str, decoder: Any) -> None:
        self.host = host
        self.port = int(port)
        self.decoder = decoder
        self.place = calling_place()


class TCPSinkConfig:
    """A sink that connects to a TCP address and sends what its encoder makes.

    Args:
        host: Address of the receiver.
        port: Port of the receiver.
        encoder: Encoder of the outputs.
        sequenced: Send each output behind its number, so that the receiver can drop what is sent
            again after a crash (see `docs/protocol.md`).

    Example:
        >>> TCPSinkConfig("127.0.0.1", 7002, str).host
        '127.0.0.1'
    """

    def __init__(
        self, host: str, port: int | str, encoder: Any, *, sequenced: bool = False
    ) -> None:
        self.host = host
        self.port = int(port)
        self.encoder = encoder
        self.sequenced = sequenced
        self.place = calling_place()
