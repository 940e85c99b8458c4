"""Stream connectors of `wallaroo.experimental`: TCP sources and sinks with a fixed framing.

A frame is a 4-byte big-endian length and the payload. Wallaroo's connector scripts used a library
that is not supported and a different framing in each version; any program can replace them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from wallaroo.api.functions import Decoder, Encoder, In, In_contra, Result, Result_co
from wallaroo.connectors.tcp.config import TCPSinkConfig, TCPSourceConfig

_LOCALHOST = "127.0.0.1"


def stream_message_decoder(func: Callable[[bytes], Result]) -> Decoder[Result]:
    """Declare the decoder of a source connector.

    Example:
        >>> stream_message_decoder(bytes.decode).header_length
        4
    """
    return Decoder(func, 4, ">I")


def stream_message_encoder(func: Callable[[In], Any]) -> Encoder[In, bytes]:
    r"""Declare the encoder of a sink connector: the result of *func* is sent as a frame.

    Example:
        >>> stream_message_encoder(str.encode)("hello")
        b'\x00\x00\x00\x05hello'
    """

    def framed(data: In) -> bytes:
        encoded = func(data)
        payload = encoded.encode() if isinstance(encoded, str) else bytes(encoded)
        return struct.pack(">I", len(payload)) + payload

    encoder = Encoder(framed)
    encoder.__wrapped__ = func  # type: ignore[attr-defined]  # for its location in user code
    return encoder


class SourceConnectorConfig(TCPSourceConfig[Result_co]):
    """A source that listens on a TCP address for frames, like a source connector of Wallaroo.

    Args:
        name: Name of the connector.
        encoder: Ignored; accepted for compatibility. It was used by the sending script.
        decoder: Decoder of the payloads.
        port: Port to bind.
        cookie: Ignored; accepted for compatibility.
        max_credits: Ignored; accepted for compatibility.
        refill_credits: Ignored; accepted for compatibility.
        host: Address to bind.
    """

    def __init__(
        self,
        name: str,
        encoder: Any,  # noqa: ARG002
        decoder: Decoder[Result_co | None],
        port: int | str,
        cookie: str = "",  # noqa: ARG002
        max_credits: int = 0,  # noqa: ARG002
        refill_credits: int = 0,  # noqa: ARG002
        host: str = _LOCALHOST,
    ) -> None:
        super().__init__(name, host, port, decoder)


class SinkConnectorConfig(TCPSinkConfig[In_contra]):
    """A sink that connects to a TCP address and sends frames, like a sink connector of Wallaroo.

    Args:
        name: Name of the connector.
        encoder: Encoder of the outputs.
        decoder: Ignored; accepted for compatibility. It was used by the receiving script.
        port: Port of the receiver.
        cookie: Ignored; accepted for compatibility.
        host: Address of the receiver.
    """

    def __init__(
        self,
        name: str,
        encoder: Encoder[In_contra, Any],
        decoder: Any,  # noqa: ARG002
        port: int | str,
        cookie: str = "",  # noqa: ARG002
        host: str = _LOCALHOST,
    ) -> None:
        super().__init__(host, port, encoder)
        self.name = name
