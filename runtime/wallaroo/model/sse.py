"""Streams of server-sent events in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wallaroo.api.web import SSESinkConfig
from wallaroo.model.endpoints import Sink
from wallaroo.model.problems import url_path, whole_number

_LEAST_KEPT = 64 * 1024
"""Bytes that a sink keeps at least: a viewer that is connected is always some behind."""


@dataclass(frozen=True)
class SSESink(Sink):
    """A sink that viewers connect to."""

    host: str
    port: int
    path: str = "/"
    event: str | None = None
    """Name of its events."""
    origins: tuple[str, ...] = ()
    """Origins of pages that may read them; `*` for all."""
    token_file: Path | None = None
    """File with the token of its viewers."""
    viewers: int = 100
    """Viewers at a time."""
    keep_bytes: int = 8 * 1024**2
    """Bytes of delivered outputs that are kept."""

    @property
    def where(self) -> str:  # noqa: D102
        return f"{self.host}:{self.port}"

    @property
    def label(self) -> str:  # noqa: D102
        return "server-sent events"

    @property
    def address(self) -> tuple[str, int]:  # noqa: D102
        return self.host, self.port

    def at_port(self, port: int) -> SSESink:  # noqa: D102
        return replace(self, port=port)


def problems_of(config: SSESinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its encoder."""
    yield from url_path(config.path)
    event = config.event
    if event is not None and not (isinstance(event, str) and event and event.isprintable()):
        yield f"event is {event!r}; expected a name on one line, or None"
    if isinstance(config.origins, str):
        yield f"origins is the text {config.origins!r}; expected a list: [{config.origins!r}]"
    else:
        for origin in config.origins:
            if not _is_origin(origin):
                yield (
                    f"origins has {origin!r}; expected '*' or an origin, a scheme and a host "
                    "without a path, such as 'https://shop.example.org'"
                )
    yield from whole_number("viewers", config.viewers, 1)
    yield from whole_number("keep_bytes", config.keep_bytes, _LEAST_KEPT)


def sse_sink(name: str, encode: Any, config: SSESinkConfig[Any], place: Any) -> SSESink:
    """The sink that *config* describes."""
    return SSESink(
        name,
        encode,
        place,
        config.host,
        config.port,
        config.path,
        config.event,
        tuple(config.origins),
        config.token_file,
        config.viewers,
        config.keep_bytes,
    )


def _is_origin(origin: object) -> bool:
    if origin == "*":
        return True
    if not isinstance(origin, str):
        return False
    parts = urlsplit(origin)
    return bool(parts.scheme and parts.netloc) and origin == f"{parts.scheme}://{parts.netloc}"
