"""Configurations of TCP sources and sinks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal, overload

from wallaroo.api.addresses import host_of, port_of
from wallaroo.api.class_api import AnyEncoder, DecoderClass, PayloadDecoder
from wallaroo.api.connectors import AnySink, AnySource
from wallaroo.api.functions import Decoder, In_contra, Result_co
from wallaroo.api.keywords import keyword_aliases
from wallaroo.api.places import calling_place

_HOST_AND_PORT = 2
"""Number of parts of an address without a name."""
StreamFraming = Literal["frames", "lines"] | bytes | int
"""How the messages of a connection are told apart, see `TCPSourceConfig`."""


class TCPSourceConfig(AnySource[Result_co]):
    """A source that listens on a TCP address for frames, lines, or other messages.

    Takes `(host, port, decoder)`, or `(name, host, port, decoder)` as the last Wallaroo versions
    do.

    Args:
        name: Ignored: a source has the name of its pipeline.
        host: Address to bind; "0.0.0.0" for all interfaces; "-" to read lines of standard input,
            each a message, which `wallaroo run` alone can do.
        port: Port to bind, ignored for "-"; 0 to let the system choose one, which the `ready` event
            reports.
        decoder: Decoder of the payloads. For frames, it also defines their layout; for everything
            else any function from bytes will do.
        framing: "frames" if a header precedes each payload; "lines" if each line is a message,
            without its line feed, also the last one of a connection that ends without one; bytes
            if each message ends with these bytes; a whole number if each message has that many
            bytes.
        valid: Ignored; accepted for compatibility. Only one process listens.
        parallelism: Ignored; accepted for compatibility. Messages go to all workers.
        max_size: Maximum length of a payload or line, in bytes; None for `wallaroo run
            --max-frame`.
        max_received_count: Ignored; accepted for compatibility.

    Example:
        >>> from wallaroo.api.functions import decoder
        >>> text = decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
        >>> TCPSourceConfig("127.0.0.1", "7010", text).port
        7010
        >>> TCPSourceConfig("Lines", "127.0.0.1", "7010", text, max_size=1000).max_size
        1000
        >>> TCPSourceConfig("127.0.0.1", 7010, bytes.decode, framing="lines").framing
        'lines'
    """

    connector = __package__

    @overload
    def __init__(
        self,
        host: str,
        port: int | str,
        decoder: Decoder[Result_co | None] | DecoderClass[Result_co | None],
        parallelism: int = 10,
    ) -> None: ...

    @overload
    def __init__(
        self,
        host: str,
        port: int | str,
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        parallelism: int = 10,
        *,
        framing: StreamFraming,
        max_size: int | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        host: str,
        port: int | str,
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        valid: bool = True,
        parallelism: int = 10,
        max_size: int | None = None,
        max_received_count: int = 50,
        *,
        framing: StreamFraming,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        host: str,
        port: int | str,
        decoder: Decoder[Result_co | None] | DecoderClass[Result_co | None],
        valid: bool = True,
        parallelism: int = 10,
        max_size: int | None = None,
        max_received_count: int = 50,
    ) -> None: ...

    @keyword_aliases(encoder="decoder")  # the name in Wallaroo 0.1 and 0.2
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # the decoder is preceded by host and port, or by name, host and port
        parts = len(list(itertools.takewhile(lambda part: isinstance(part, (int, str)), args)))
        parts += len({"host", "port"} & kwargs.keys())
        named = "name" in kwargs or parts > _HOST_AND_PORT
        (self._take_named if named else self._take)(*args, **kwargs)
        self.place = calling_place()

    def _take(
        self,
        host: str,
        port: int | str,
        decoder: Any,
        parallelism: int = 10,  # noqa: ARG002
        *,
        max_size: int | None = None,
        framing: StreamFraming = "frames",
    ) -> None:
        self._take_named("", host, port, decoder, max_size=max_size, framing=framing)

    def _take_named(
        self,
        name: str,
        host: str,
        port: int | str,
        decoder: Any,
        valid: bool = True,  # noqa: ARG002
        parallelism: int = 10,  # noqa: ARG002
        max_size: int | None = None,
        max_received_count: int = 50,  # noqa: ARG002
        *,
        framing: StreamFraming = "frames",
    ) -> None:
        self.name = name
        self.host = host_of(host, standard=True)
        self.port = port_of(port)
        self.decoder = decoder
        self.max_size = max_size
        self.framing = framing

    # as TypeErrors of wrong arguments name them
    _take.__qualname__ = _take_named.__qualname__ = "TCPSourceConfig"

    def to_tuple(self) -> tuple[str, str, int, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("tcp", self.host, self.port, self.decoder)


class TCPSinkConfig(AnySink[In_contra]):
    """A sink that connects to a TCP address and sends the encoded outputs.

    Args:
        host: Address of the receiver; "-" to print, as `PrintSinkConfig` does.
        port: Port of the receiver, ignored for "-".
        encoder: Encoder of the outputs.
        sequenced: Send a number before each output, and count the output as delivered when the
            receiver has acknowledged the number. The receiver then gets each output exactly once,
            whichever process crashes (see `docs/protocol.md`).

    Example:
        >>> TCPSinkConfig("127.0.0.1", 7002, str).host
        '127.0.0.1'
    """

    connector = __package__

    @keyword_aliases(decoder="encoder")  # the name in Wallaroo 0.1 and 0.2
    def __init__(
        self,
        host: str,
        port: int | str,
        encoder: AnyEncoder[In_contra],
        *,
        sequenced: bool = False,
    ) -> None:
        self.host = host_of(host, standard=True)
        self.port = port_of(port)
        self.encoder = encoder
        self.sequenced = sequenced
        self.place = calling_place()

    def to_tuple(self) -> tuple[str, str, int, Any]:
        """Return the configuration as the tuple that Wallaroo's builder accepts."""
        return ("tcp", self.host, self.port, self.encoder)
