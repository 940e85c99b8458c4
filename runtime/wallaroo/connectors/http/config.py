"""Configuration of HTTP sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wallaroo.api.addresses import host_of, port_of
from wallaroo.api.class_api import PayloadDecoder
from wallaroo.api.connectors import AnySource
from wallaroo.api.functions import Result_co
from wallaroo.api.places import calling_place


class HTTPSourceConfig(AnySource[Result_co]):
    """A source that takes messages by HTTP POST, and answers when they are on disk.

    Args:
        host: Address to bind; "0.0.0.0" for all interfaces.
        port: Port to bind; 0 to let the system choose one, which the `ready` event reports.
        decoder: Decoder of the messages; any function from bytes will do.
        path: The path that messages are posted to.
        max_size: Maximum length of a body, in bytes; None for `wallaroo run --max-frame`.
        origins: Origins of the pages that may post messages besides those of the source's own
            address, such as `"https://shop.example.org"`; `"*"` for all.

    Example:
        >>> HTTPSourceConfig("127.0.0.1", 7010, bytes.decode, path="/orders").path
        '/orders'
    """

    connector = __package__

    def __init__(
        self,
        host: str,
        port: int | str,
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        *,
        path: str = "/",
        max_size: int | None = None,
        origins: Sequence[str] = (),
    ) -> None:
        self.host = host_of(host)
        self.port = port_of(port)
        self.decoder = decoder
        self.path = path
        self.max_size = max_size
        self.origins = origins
        self.place = calling_place()
