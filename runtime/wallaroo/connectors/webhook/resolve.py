"""Receivers of webhooks in the normal form of an application."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wallaroo.connectors.variables import VARIABLE
from wallaroo.connectors.webhook.config import WebhookSinkConfig
from wallaroo.model.endpoints import Sink
from wallaroo.resolution.problems import one_of, whole_number
from wallaroo.resolution.sinks import SinkContext

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Name of a header."""
_SECRETS = ("authorization", "cookie", "token", "secret", "key", "password", "signature")
"""Parts of the names of headers that are secrets."""
_OWN = frozenset(
    {"content-length", "content-type", "connection", "host", "idempotency-key", "transfer-encoding"}
)
"""Headers that the sink sets."""


@dataclass(frozen=True)
class WebhookSink(Sink):
    """A sink that posts outputs to a URL."""

    connector = __package__
    url: str
    batch: int = 1
    """Most outputs in a request."""
    batch_format: str = "lines"
    """`lines` or `array`."""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further headers, in which variables are not replaced yet."""
    headers_file: Path | None = None
    """File with further ones."""
    timeout_s: float = 30.0
    sets_aside: bool = True
    """Whether outputs that are refused become dead letters."""
    attempts: int | None = None
    """Answers after which outputs become dead letters; None for any number."""

    @property
    def where(self) -> str:  # noqa: D102
        return self.url.partition("?")[0].partition("#")[0]

    @property
    def label(self) -> str:  # noqa: D102
        return f"webhook {urlsplit(self.url).netloc}"


def sink(config: WebhookSinkConfig[Any], context: SinkContext) -> WebhookSink:
    """The sink that *config* describes."""
    encode = context.encode()
    problems = [*_problems(config)]
    context.report(*problems)
    if not problems:
        context.hint(*_hints(config))
    in_lines = config.batch_format == "lines" and config.batch != 1
    return WebhookSink(
        context.name,
        encode,
        context.place,
        str(config.url),
        config.batch,
        config.batch_format,
        config.content_type or ("application/x-ndjson" if in_lines else "application/json"),
        config.headers,
        config.headers_file,
        config.timeout_s,
        config.on_refused == "set-aside",
        config.attempts,
    )


def _problems(config: WebhookSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its encoder."""
    yield from _problems_of_url(config.url)
    yield from whole_number("batch", config.batch, 1)
    yield from one_of("batch_format", config.batch_format, "lines", "array")
    yield from one_of("on_refused", config.on_refused, "set-aside", "wait")
    if config.attempts is not None:
        yield from whole_number("attempts", config.attempts, 1)
    timeout = config.timeout_s
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        yield f"timeout_s is {timeout!r}; expected a number of seconds above 0"
    for name, value in config.headers.items():
        if (problem := problem_of_header(name, value)) is not None:
            yield f"headers: {problem}"
        elif any(part in name.lower() for part in _SECRETS) and not VARIABLE.search(value):
            yield (
                f"headers has {name!r}, a secret: write it to a file and pass headers_file, or "
                "take it from an environment variable, as in '${NAME}'"
            )


def _hints(config: WebhookSinkConfig[Any]) -> Iterator[str]:
    """What is allowed in *config*, but probably not meant."""
    secret = config.headers_file is not None or any(map(VARIABLE.search, config.headers.values()))
    parts = urlsplit(config.url)
    if (
        parts.scheme == "http"
        and secret
        and parts.hostname not in {"127.0.0.1", "::1", "localhost"}
    ):
        yield (
            f"the headers of {parts.scheme}://{parts.netloc} are sent without TLS, and so are the "
            "secrets in them; use https"
        )


def problem_of_header(name: object, value: object) -> str | None:
    """What is wrong with a header, without its value, which may be a secret."""
    if not (isinstance(name, str) and _TOKEN.fullmatch(name)):
        return f"{name!r} is not the name of a header"
    if name.lower() in _OWN:
        return f"{name} is set by the sink" + (
            "; pass content_type" if name.lower() == "content-type" else ""
        )
    if not isinstance(value, str):
        return f"the value of {name} is {type(value).__name__}; expected a text"
    if not (value.isascii() and value.isprintable()):
        return f"the value of {name} has characters other than printable ones of ASCII"
    return None


def _problems_of_url(url: object) -> Iterator[str]:
    wanted = "expected an address such as 'https://hooks.example.org/orders'"
    if not isinstance(url, str):
        yield f"url is {url!r}; {wanted}"
        return
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url:
        yield f"url is {url!r}; {wanted}"
    elif parts.username is not None or VARIABLE.search(parts.netloc):
        yield (
            "url has a user or a variable before its path; write the credentials to a file of "
            "headers, and pass headers_file"
        )
