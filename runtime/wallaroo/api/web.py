"""Configurations of sinks that speak HTTP."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal

from wallaroo.api.class_api import EncoderClass
from wallaroo.api.configs import host_of, port_of
from wallaroo.api.functions import Encoder, In_contra
from wallaroo.api.places import calling_place


class SSESinkConfig(Generic[In_contra]):
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

    def __init__(
        self,
        host: str,
        port: int | str,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
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
        self.token_file = None if token_file is None else Path(token_file).absolute()
        self.viewers = viewers
        self.keep_bytes = keep_bytes
        self.place = calling_place()


class WebhookSinkConfig(Generic[In_contra]):
    """A sink that posts each output, or batches of them, to a URL by HTTP.

    Outputs are posted in order, one request at a time. A request is repeated, with the same
    `Idempotency-Key`, until the receiver answers 2xx.

    Args:
        url: Where to post to: `http://…` or `https://…`. `${NAME}` in the path or query stands for
            an environment variable of the gateway.
        encoder: Encoder of the outputs.
        batch: Maximum number of outputs in a request. It does not wait for more than there are.
        batch_format: Format of a body with several outputs: `"lines"` for an output on each line,
            `"array"` for a JSON array of outputs that are JSON.
        content_type: Content type of requests; None for `application/x-ndjson` with lines and
            `application/json` otherwise.
        headers: Further headers. `${NAME}` in a value stands for an environment variable of the
            gateway.
        headers_file: File with further headers that are secret, `Name: value` in each line; only
            the gateway reads it. Relative to the application's directory.
        timeout_s: Time limit of each step of a request, in seconds: to accept the connection, and
            to answer.
        on_refused: What to do with outputs that the receiver answers with 400, 413, 415 or 422:
            `"set-aside"` as dead letters, or `"wait"` to retry, as after all other answers.
        attempts: Answers other than 2xx after which outputs are set aside as well; None to
            retry indefinitely, while outputs stay on disk.

    Example:
        >>> WebhookSinkConfig("https://hooks.example.org/orders", str, batch=100).batch
        100
    """

    def __init__(
        self,
        url: str,
        encoder: Encoder[In_contra, Any] | EncoderClass[In_contra],
        *,
        batch: int = 1,
        batch_format: Literal["lines", "array"] = "lines",
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        headers_file: str | os.PathLike[str] | None = None,
        timeout_s: float = 30.0,
        on_refused: Literal["set-aside", "wait"] = "set-aside",
        attempts: int | None = None,
    ) -> None:
        self.url = url
        self.encoder = encoder
        self.batch = batch
        self.batch_format = batch_format
        self.content_type = content_type
        self.headers = dict(headers or {})
        self.headers_file = None if headers_file is None else Path(headers_file).absolute()
        self.timeout_s = timeout_s
        self.on_refused = on_refused
        self.attempts = attempts
        self.place = calling_place()
