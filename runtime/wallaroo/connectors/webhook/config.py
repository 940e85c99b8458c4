"""Configuration of sinks that post to a URL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from wallaroo.api.class_api import AnyEncoder
from wallaroo.api.connectors import AnySink
from wallaroo.api.functions import In_contra
from wallaroo.api.places import calling_place
from wallaroo.api.secret_files import secret_file


class WebhookSinkConfig(AnySink[In_contra]):
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

    connector = __package__

    def __init__(
        self,
        url: str,
        encoder: AnyEncoder[In_contra],
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
        self.headers_file = secret_file(headers_file)
        self.timeout_s = timeout_s
        self.on_refused = on_refused
        self.attempts = attempts
        self.place = calling_place()
