"""Configuration of sinks that viewers read as server-sent events."""

from __future__ import annotations

import os
from collections.abc import Sequence

from wallaroo.api.addresses import host_of, port_of
from wallaroo.api.class_api import AnyEncoder
from wallaroo.api.connectors import AnySink
from wallaroo.api.functions import In_contra
from wallaroo.api.places import calling_place
from wallaroo.api.secret_files import secret_file


class SSESinkConfig(AnySink[In_contra]):
    """A sink that browsers connect to: each gets the outputs from then on, as server-sent events.

    Outputs do not wait for clients: they count as delivered as soon as clients could read them. A
    reconnecting browser sends the number of its last event and receives the outputs it missed, if
    they are still among the last `keep_bytes`; otherwise it receives an event `missed`.

    Args:
        host: Address to bind; "0.0.0.0" for all interfaces.
        port: Port to bind; 0 to let the system choose one, which the `ready` event reports.
        encoder: Encoder of the outputs; an output is the data of an event, in UTF-8.
        path: The path of the events; everything else gets the answer 404.
        event: Name of the events, as `addEventListener` takes it; None for unnamed ones, which
            `onmessage` gets.
        origins: Origins of the pages that may read the events besides those of the sink's own
            address, such as `"https://shop.example.org"`; `"*"` for all.
        token_file: File with a token, which clients must send as `Authorization: Bearer TOKEN` or
            `?token=TOKEN`; relative to the application's directory. None to require none.
        viewers: Maximum number of connected clients; more get the answer 503. A slow one takes up
            to about 200 kB of memory.
        keep_bytes: Bytes of delivered outputs that are kept, on disk and in memory, for clients
            that reconnect or are slow. A client that falls further behind is disconnected.

    Example:
        >>> SSESinkConfig("127.0.0.1", 7020, str, path="/prices", event="price").port
        7020
    """

    connector = __package__

    def __init__(
        self,
        host: str,
        port: int | str,
        encoder: AnyEncoder[In_contra],
        *,
        path: str = "/",
        event: str | None = None,
        origins: Sequence[str] = (),
        token_file: str | os.PathLike[str] | None = None,
        viewers: int = 100,
        keep_bytes: int = 8 * 1024**2,
    ) -> None:
        self.host = host_of(host)
        self.port = port_of(port)
        self.encoder = encoder
        self.path = path
        self.event = event
        self.origins = origins
        self.token_file = secret_file(token_file)
        self.viewers = viewers
        self.keep_bytes = keep_bytes
        self.place = calling_place()
